// WorkerEnvironment: world + local rank -> the variables and arguments of one worker (torchrun
// contract, sections 1.3 and 2). Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

/// This process's environment, "NAME=value" each.
std::vector<std::string> own_environment();

struct WorkerPlace {
  const World& world;
  int local_rank = 0;
  std::string error_file;        ///< empty text when there are no log files
  std::string progress_channel;  ///< path; empty: none
  /// The interface by which this node reaches the others; empty when it is alone with itself.
  std::string network_interface = {};
};

/// The whole environment: `inherited` ("NAME=value" each; of two with one name the first counts)
/// with the contract's variables put over it. OMP_NUM_THREADS becomes 1 when it is unset and there
/// are several workers; GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME the interface when unset. An
/// Error only for --virtual-local-rank with too short a CUDA_VISIBLE_DEVICES.
Result<std::vector<std::string>> worker_environment(const std::vector<std::string>& inherited,
                                                    const JobSpec& spec, const WorkerPlace& place);

/// Whether the attempt's store is the workers' own, on a port that is kept for it, and not the
/// agent's: TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1. With static ranks the agent always has one.
bool workers_host_store(const std::vector<std::string>& inherited, const JobSpec& spec);

/// Whether worker_environment sets OMP_NUM_THREADS by itself; the agent says so, once.
bool sets_omp_threads(const std::vector<std::string>& inherited, const JobSpec& spec);

/// argv of one worker: the program's path, and its arguments with the local rank put in.
std::vector<std::string> worker_argv(const Program& program, int local_rank);

/// ${local_rank} and $local_rank put in, $$ -> $, other names left alone (Python's
/// string.Template.safe_substitute).
std::string substitute_local_rank(std::string_view argument, int local_rank);

}  // namespace ddprun
