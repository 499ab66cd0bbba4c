// RendezvousConfig: where and how the nodes of the job meet, by torchrun's rules: backend,
// endpoint, job id, who hosts, and how long each waits for the others.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/job_spec.h"
#include "launcher/notice.h"
#include "launcher/options.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// NAME:PASSWORD for etcd. Workers do not get it.
inline constexpr const char* kEtcdUserVariable = "DDPRUN_ETCD_USER";

/// The job's name becomes part of a directory's name (NAME_MAX is 255) with eight characters more.
inline constexpr std::size_t kJobIdBytesMax = 200;

/// Fills the rendezvous fields of `job` and its id; its node counts must be set, the static
/// backend raises the minimum to the maximum, and a node alone is one node. `new_job_id` is called
/// for a job of one node alone. The environment is asked for a scheduler's rank. The notice tells
/// what --standalone stands for, or where the rank comes from.
Result<std::optional<Notice>> resolve_rendezvous(const Options& options,
                                                 const Environment& environment,
                                                 const std::function<std::string()>& new_job_id,
                                                 JobSpec& job);

}  // namespace ddprun
