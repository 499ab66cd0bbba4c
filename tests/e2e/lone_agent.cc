#include "tests/e2e/lone_agent.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"

namespace ddprun::test {

std::unique_ptr<ChildProcess> start(const LoneAgent& agent) {
  std::vector<std::string> argv;
  std::map<std::string, std::string> files = agent.files;
  if (!agent.hosts_file.empty()) {
    files["/etc/hosts"] = agent.hosts_file;
  }
  for (const auto& [path, seen] : files) {
    argv.insert(argv.end(), {"unshare", "-m", "sh", "-c",
                             "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"", seen, path});
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

LoneAgent on_node(const NetNamespaces& network, int node, LoneAgent agent) {
  agent.network_namespace = network.name(node);
  agent.host_name = "node" + std::to_string(node);
  return agent;
}

std::string local_endpoint() {
  return "127.0.0.1:" + std::to_string(free_port());
}

int port_of(const std::string& endpoint) {
  return std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
}

std::vector<std::string> shell(const std::string& text) {
  return {"bash", "-c", text};
}

std::vector<std::string> runs_until(const std::string& file) {
  return shell(
      "echo attempt=$TORCHELASTIC_RESTART_COUNT rank=$RANK world=$WORLD_SIZE; while [ ! -e " +
      file + " ]; do sleep 0.02; done");
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

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

std::string weights_in(const std::string& out) {
  const std::string mark = ", weights ";
  const auto at = out.find(mark);
  return at == std::string::npos ? "" : out.substr(at + mark.size(), 16);
}

void check_one_sentence(const std::string& err) {
  INFO(err);
  CHECK(count_of(err, "\n") == 1);
  CHECK(err.starts_with("ddprun: "));
  CHECK(err.ends_with('\n'));
}

}  // namespace ddprun::test
