#include "agent/warm/warm_environment.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

/// What changes with the attempt. LOCAL_RANK does not: a spare belongs to one local rank.
constexpr const char* kOfOneAttempt[] = {
    env::kRank,           env::kGroupRank,     env::kRoleRank,       env::kWorldSize,
    env::kGroupWorldSize, env::kRoleWorldSize, env::kMasterAddr,     env::kMasterPort,
    env::kRestartCount,   env::kErrorFile,     env::kProgressChannel};

constexpr std::string_view kPythonPath = "PYTHONPATH";
constexpr std::string_view kImports = "DDPRUN_WARM_IMPORTS";

}  // namespace

std::vector<std::string> warm_environment(const std::vector<std::string>& worker,
                                          const std::vector<std::string>& imports) {
  std::vector<std::string> environment;
  // From a descriptor: no file that others could write is imported (docs/warm-workers.md).
  std::string path = fmt::format("{}=/proc/self/fd/{}", kPythonPath, kWarmModuleFd);
  for (const std::string& entry : worker) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    // The user's folders follow ours. An empty entry would add the working directory, so it is
    // left out.
    if (name == kPythonPath) {
      const std::string users = entry.substr(kPythonPath.size() + 1);
      path += users.empty() ? "" : ":" + users;
    } else if (name != kImports && std::find(std::begin(kOfOneAttempt), std::end(kOfOneAttempt),
                                             name) == std::end(kOfOneAttempt)) {
      environment.push_back(entry);
    }
  }
  // Once, whether the worker has a PYTHONPATH or not: Python takes the first of two.
  environment.push_back(path);
  DDP_CHECK(environment.size() <= worker.size() + 1, "only PYTHONPATH is new so far");
  std::string list;
  for (const std::string& name : imports) {
    list += (list.empty() ? "" : ",") + name;
  }
  if (!list.empty()) {
    environment.push_back(std::string(kImports) + "=" + list);
  }
  return environment;
}

std::string environment_text(const std::vector<std::string>& environment) {
  std::string text;
  for (const std::string& entry : environment) {
    DDP_CHECK(entry.find('\0') == std::string::npos, "an entry ends at its zero byte");
    text += entry;
    // A value may hold a line end but no zero byte, as in /proc/PID/environ.
    text += '\0';
  }
  return text;
}

}  // namespace ddprun
