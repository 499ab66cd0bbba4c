#include "launcher/ctl/agent_finder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "launcher/ctl/ctl_exit.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Agents that are named where there are several.
constexpr std::size_t kNamedMax = 8;

/// None for a process that is gone, or another container's.
std::optional<pid_t> parent_of(pid_t pid) {
  const auto status = read_file("/proc/" + std::to_string(pid) + "/status");
  constexpr std::string_view kField = "PPid:\t";
  const auto at = status ? status->find(kField) : std::string::npos;
  if (at == std::string::npos) {
    return std::nullopt;
  }
  const std::string_view rest = std::string_view(*status).substr(at + kField.size());
  return parse_number<pid_t>(rest.substr(0, rest.find('\n')));
}

/// Whose agents are looked for. Only root may look after another user's.
uid_t user_of(const std::optional<pid_t>& pid) {
  struct stat status {};
  const bool other =
      ::geteuid() == 0 && pid && ::stat(("/proc/" + std::to_string(*pid)).c_str(), &status) == 0;
  return other ? status.st_uid : ::geteuid();
}

/// Says what was looked for: a job id with a typo is the likeliest mistake.
Error none_found(const std::optional<std::string>& job, const std::optional<pid_t>& pid,
                 const std::string& refused) {
  std::string what = "no agent of this user runs on this host";
  what += job ? " for the job '" + *job + "'" : "";
  what += pid ? " as process " + std::to_string(*pid) : "";
  what += refused.empty() ? "" : " (" + refused + ")";
  return {what, "", "run ddpctl on a node of the job, as the user who started ddprun there"};
}

/// Names them, so that the next try can choose.
Error several_found(const std::vector<FoundAgent>& found) {
  std::string list;
  for (std::size_t i = 0; i < found.size() && i < kNamedMax; ++i) {
    list += (list.empty() ? "" : ", ") + found[i].name.job + " (pid " +
            std::to_string(found[i].name.pid) + ")";
  }
  list += found.size() > kNamedMax ? ", ..." : "";
  const bool one_job = std::all_of(found.begin(), found.end(), [&](const FoundAgent& one) {
    return one.name.job == found.front().name.job;
  });
  return {std::to_string(found.size()) + " agents run on this host: " + list, "",
          one_job ? "choose one with --pid PID" : "choose one with --job ID or --pid PID"};
}

}  // namespace

/// In all of the user's directories: an agent under a scheduler has another XDG_RUNTIME_DIR than
/// the shell from which it is looked after.
std::variant<FoundAgent, CtlFailure> find_agent(const std::optional<std::string>& job,
                                                const std::optional<pid_t>& pid) {
  const uid_t user = user_of(pid);
  std::vector<FoundAgent> found;
  std::string refused;
  for (const std::string& path : agent_socket_dirs(user, std::getenv("XDG_RUNTIME_DIR"))) {
    auto directory = open_socket_dir(path, user, false);
    if (!directory) {
      // One that is not there is no news: agents have made another, or none.
      struct stat status {};
      if (::lstat(path.c_str(), &status) == 0) {
        refused = directory.error().where + ": " + directory.error().what;
      }
      continue;
    }
    for (AgentSocketName& name : agents_in(*directory)) {
      // A user knows the process that the shell has started: the guardian, the agent's parent.
      const bool has_pid = !pid || name.pid == *pid || parent_of(name.pid) == pid;
      const bool has_job = !job || name.job == job_in_socket_name(*job);
      if (has_pid && has_job) {
        found.push_back({Fd(::dup(directory->get())), std::move(name)});
      }
    }
  }
  if (found.empty()) {
    return CtlFailure{none_found(job, pid, refused), kCtlNoAgent};
  }
  if (found.size() > 1) {
    return CtlFailure{several_found(found), kCtlSeveralAgents};
  }
  return std::move(found.front());
}

}  // namespace ddprun
