#include "tests/e2e/lone_agent.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "tests/support/event_wait.h"
#include "tests/support/net_namespaces.h"

namespace ddprun::test {

std::unique_ptr<ChildProcess> start(const LoneAgent& agent) {
  std::vector<std::string> argv;
  if (!agent.hosts_file.empty()) {
    argv = {"unshare",       "-m", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
            agent.hosts_file};
  }
  argv.push_back(find_program("ddprun"));
  if (!agent.endpoint.empty()) {
    argv.insert(argv.end(), {"--rdzv-endpoint", agent.endpoint});
  }
  argv.insert(argv.end(), agent.options.begin(), agent.options.end());
  argv.insert(argv.end(), agent.program.begin(), agent.program.end());
  return std::make_unique<ChildProcess>(ChildRequest{.argv = argv,
                                                     .environment = agent.environment,
                                                     .network_namespace = agent.network_namespace,
                                                     .host_name = agent.host_name});
}

bool no_namespaces() {
  const std::string why = NetNamespaces::unavailable();
  if (!why.empty()) {
    WARN(why);
  }
  return !why.empty();
}

std::vector<std::string> shell(const std::string& text) {
  return {"bash", "-c", text};
}

bool listens(const std::string& address, int port, const std::string& network_namespace) {
  const std::string text = "exec 3<>/dev/tcp/" + address + "/" + std::to_string(port);
  return wait_until([&] {
    return run({.argv = shell(text), .network_namespace = network_namespace}).exit_code == 0;
  });
}

std::string line_after(const std::string& text, const std::string& prefix) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix)) {
      found = line.substr(prefix.size());
    }
  }
  return found;
}

}  // namespace ddprun::test
