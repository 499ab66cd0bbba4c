#include "agent/worker_environment.h"

#include <map>

#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

Variables to_map(const std::vector<std::string>& environment) {
  Variables variables;
  for (const auto& entry : environment) {
    if (const auto equals = entry.find('='); equals != std::string::npos && equals > 0) {
      variables[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return variables;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  for (auto at = text.find(separator); at != std::string::npos; at = text.find(separator, from)) {
    parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  parts.push_back(text.substr(from));
  return parts;
}

/// --virtual-local-rank: the worker sees one GPU, as number 0 (contract, section 2).
Result<void> put_one_gpu(Variables& variables, int local_rank) {
  std::string gpu = std::to_string(local_rank);
  if (const auto visible = variables.find(env::kCudaVisibleDevices);
      visible != variables.end() && !visible->second.empty()) {
    const auto entries = split(visible->second, ',');
    if (static_cast<std::size_t>(local_rank) >= entries.size()) {
      return Error{"it names " + std::to_string(entries.size()) + " GPUs, and local rank " + gpu +
                       " needs one of its own",
                   "CUDA_VISIBLE_DEVICES='" + visible->second + "'",
                   "name more GPUs, or lower --nproc-per-node"};
    }
    gpu = entries[static_cast<std::size_t>(local_rank)];
  }
  variables[env::kCudaVisibleDevices] = gpu;
  return {};
}

bool is_name_char(char c, bool first) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (!first && c >= '0' && c <= '9');
}

}  // namespace

Result<std::vector<std::string>> worker_environment(const std::vector<std::string>& inherited,
                                                    const JobSpec& spec, const WorkerPlace& place) {
  Variables v = to_map(inherited);
  const World& world = place.world;
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
  put(env::kRestartCount, number(world.attempt));
  put(env::kMaxRestarts, spec.max_restarts);
  v[env::kRunId] = spec.job_id;
  const auto unshared = v.find(env::kDisableSharedStore);
  v[env::kUseAgentStore] = unshared != v.end() && unshared->second == "1" ? "False" : "True";
  v.try_emplace(env::kNcclAsyncErrorHandling, "1");
  v[env::kErrorFile] = place.error_file;
  v[env::kSignalsToHandle] = spec.signals_to_handle_text;
  if (place.progress_channel.empty()) {
    v.erase(env::kProgressChannel);
  } else {
    v[env::kProgressChannel] = place.progress_channel;
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

std::string substitute_local_rank(std::string_view argument, int local_rank) {
  static constexpr std::string_view kName = "local_rank";
  std::string text;
  for (std::size_t i = 0; i < argument.size(); ++i) {
    if (argument[i] != '$') {
      text.push_back(argument[i]);
      continue;
    }
    const std::string_view rest = argument.substr(i + 1);
    if (rest.starts_with('$')) {
      text.push_back('$');
      i += 1;
    } else if (rest.starts_with("{local_rank}")) {
      text += std::to_string(local_rank);
      i += kName.size() + 2;
    } else if (rest.starts_with(kName) &&
               (rest.size() == kName.size() || !is_name_char(rest[kName.size()], false))) {
      text += std::to_string(local_rank);
      i += kName.size();
    } else {
      text.push_back('$');
    }
  }
  return text;
}

}  // namespace ddprun
