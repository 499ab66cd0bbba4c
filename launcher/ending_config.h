// EndingConfig: how the job ends before its workers do: the signals that end it, the time that
// workers have then, and its deadline. Pure.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "agent/job_spec.h"
#include "launcher/notice.h"
#include "launcher/options.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// Fills the fields of `job` that say how it ends. `unix_time` is the time since 1970, and is
/// called for a deadline that is an instant. The notices name the signals that this system does not
/// have.
Result<std::vector<Notice>> resolve_ending(
    const Options& options, const Environment& environment,
    const std::function<std::chrono::milliseconds()>& unix_time, JobSpec& job);

}  // namespace ddprun
