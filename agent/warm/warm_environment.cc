#include "agent/warm/warm_environment.h"

#include <algorithm>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/contract/environment.h"

namespace ddprun {
namespace {

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
  std::string path = std::string(kPythonPath) + "=/proc/self/fd/" + std::to_string(kWarmModuleFd);
  for (const std::string& entry : worker) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    if (name == kPythonPath) {
      const std::string users = entry.substr(kPythonPath.size() + 1);
      path += users.empty() ? "" : ":" + users;
    } else if (name != kImports && std::find(std::begin(kOfOneAttempt), std::end(kOfOneAttempt),
                                             name) == std::end(kOfOneAttempt)) {
      environment.push_back(entry);
    }
  }
  environment.push_back(path);
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
    text += '\0';
  }
  return text;
}

}  // namespace ddprun
