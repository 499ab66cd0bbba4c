// CpuQuota: how many processors the control groups of this process allow, in both versions of
// cgroups, mixed ones included. Pure: the caller supplies the file reader.
#pragma once

#include <optional>
#include <string_view>

#include "rendezvous/base/control_group.h"

namespace ddprun {

/// cpu.max of cgroup v2: "150000 100000" is 1.5 processors. None: no limit ("max ..."), or no such
/// text.
std::optional<double> parse_cpu_max(std::string_view text);

/// cpu.cfs_quota_us and cpu.cfs_period_us of cgroup v1. None: no limit (-1), or no such texts.
std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period);

/// The tightest quota on the way from this process's group to the root that it can see, by
/// /proc/self/cgroup and /proc/self/mountinfo. None: no limit.
std::optional<double> cpu_quota(const FileReader& read);

}  // namespace ddprun
