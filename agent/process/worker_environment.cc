#include "agent/process/worker_environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "agent/output/string_template.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

/// execve(2) takes a list with one name twice, and getenv(3) finds the first: so does this agent,
/// and so does a worker that would have been started without it.
Variables to_map(const std::vector<std::string>& environment) {
  Variables variables;
  for (const auto& entry : environment) {
    if (const auto equals = entry.find('='); equals != std::string::npos && equals > 0) {
      variables.try_emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  return variables;
}

/// --virtual-local-rank: the worker sees one GPU, as number 0 (contract, section 2).
Result<void> put_one_gpu(Variables& variables, int local_rank) {
  std::string gpu = std::to_string(local_rank);
  if (const auto visible = variables.find(env::kCudaVisibleDevices); visible != variables.end()) {
    // An empty list hides all GPUs. To torchrun it has one entry, which is empty: so one worker
    // runs without any, and two cannot.
    const auto entries = visible->second.empty() ? std::vector<std::string_view>{""}
                                                 : parts_of(visible->second, ',');
    if (static_cast<std::size_t>(local_rank) >= entries.size()) {
      const std::size_t named = visible->second.empty() ? 0 : entries.size();
      return Error{
          fmt::format("it names {} GPUs, and local rank {} needs one of its own", named, gpu),
          "CUDA_VISIBLE_DEVICES='" + visible->second + "'",
          "name more GPUs, or lower --nproc-per-node"};
    }
    gpu = entries[static_cast<std::size_t>(local_rank)];
  }
  variables[env::kCudaVisibleDevices] = gpu;
  return {};
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

Result<std::vector<std::string>> worker_environment(const std::vector<std::string>& inherited,
                                                    const JobSpec& spec, const WorkerPlace& place) {
  Variables v = to_map(inherited);
  const World& world = place.world;
  DDP_CHECK(place.local_rank >= 0 && place.local_rank < spec.local_world_size,
            "a worker is one of this node's");
  DDP_CHECK(world.base_rank + place.local_rank < world.world_size,
            "ranks end below the world size");
  DDP_CHECK(world.group_rank < world.group_world_size, "a node is one of the world's");
  DDP_CHECK(world.role_base_rank + place.local_rank < world.role_world_size,
            "and its ranks within the role end below the role's size");
  const auto put = [&v](const char* name, auto number) { v[name] = std::to_string(number); };
  put(env::kLocalRank, spec.virtual_local_rank ? 0 : place.local_rank);
  put(env::kRank, world.base_rank + place.local_rank);
  put(env::kGroupRank, world.group_rank);
  put(env::kRoleRank, world.role_base_rank + place.local_rank);
  v[env::kRoleName] = spec.role;
  put(env::kLocalWorldSize, spec.local_world_size);
  put(env::kWorldSize, world.world_size);
  put(env::kGroupWorldSize, world.group_world_size);
  put(env::kRoleWorldSize, world.role_world_size);
  v[env::kMasterAddr] = world.master_addr;
  put(env::kMasterPort, world.master_port);
  // The attempt, job-wide and never reused: it names logs, stores and snapshots alike. Torchrun's
  // count is local to each agent, and its nodes disagree after a while (field I-10).
  put(env::kRestartCount, number(world.attempt));
  put(env::kMaxRestarts, spec.max_restarts);
  v[env::kRunId] = spec.job_id;
  // PyTorch's rank 0 opens a store by itself on "False", and connects to the agent's on "True".
  v[env::kUseAgentStore] = workers_host_store(inherited, spec) ? "False" : "True";
  // try_emplace, here and below: what the user has set stays.
  v.try_emplace(env::kNcclAsyncErrorHandling, "1");
  v[env::kErrorFile] = place.error_file;
  if (spec.hang_timeouts.progress.count() > 0) {
    // SIGABRT then makes a Python worker that hangs tell its stack.
    v.try_emplace(env::kPythonFaultHandler, "1");
  }
  v[env::kSignalsToHandle] = spec.signals_to_handle_text;
  // A channel that is inherited from an outer ddprun is the page of another worker.
  if (place.progress_channel.empty()) {
    v.erase(env::kProgressChannel);
  } else {
    v[env::kProgressChannel] = place.progress_channel;
  }
  // Without it Gloo takes the address of the host name, which /etc/hosts often maps to the
  // loopback; NCCL takes the first interface that is up, which may lead nowhere.
  if (!place.network_interface.empty()) {
    v.try_emplace(env::kGlooSocketInterface, place.network_interface);
    // To NCCL a plain name is a prefix: eth1 would also allow eth10.
    v.try_emplace(env::kNcclSocketInterface, "=" + place.network_interface);
  }
  if (spec.local_world_size > 1) {
    v.try_emplace(env::kOmpNumThreads, "1");
  }
  if (spec.virtual_local_rank) {
    if (const auto put_gpu = put_one_gpu(v, place.local_rank); !put_gpu) {
      return put_gpu.error();
    }
  }
  std::vector<std::string> environment;
  environment.reserve(v.size());
  for (const auto& [name, value] : v) {
    environment.push_back(name + "=" + value);
  }
  return environment;
}

bool workers_host_store(const std::vector<std::string>& inherited, const JobSpec& spec) {
  const std::string name = std::string(env::kDisableSharedStore) + "=";
  const auto found =
      std::find_if(inherited.begin(), inherited.end(),
                   [&name](const std::string& entry) { return entry.starts_with(name); });
  return spec.backend != RendezvousBackend::static_ranks && found != inherited.end() &&
         *found == name + "1";
}

bool sets_omp_threads(const std::vector<std::string>& inherited, const JobSpec& spec) {
  return spec.local_world_size > 1 && to_map(inherited).count(env::kOmpNumThreads) == 0;
}

std::vector<std::string> worker_argv(const Program& program, int local_rank) {
  std::vector<std::string> argv{program.argv0.empty() ? program.path : program.argv0};
  for (const std::string& argument : program.arguments) {
    argv.push_back(substitute_local_rank(argument, local_rank));
  }
  return argv;
}

std::string substitute_local_rank(std::string_view argument, int local_rank) {
  return safe_substitute(argument, {{"local_rank", std::to_string(local_rank)}});
}

}  // namespace ddprun
