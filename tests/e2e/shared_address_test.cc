// Addresses by which nobody is reached: of a bridge that every host has, as container software
// makes it, and of networks that lead nowhere. Nodes are network namespaces.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/event_lines.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {

TEST_CASE("Addresses by which nobody is reached do not delay a failover") {
  NEEDS_NAMESPACES();
  constexpr int kNodes = 4;
  const TempDir dir;
  NetNamespaces network(kNodes);
  std::string endpoints;
  for (int node = 0; node < kNodes; ++node) {
    for (const std::string rail : {"81", "82"}) {
      const std::string address = "10." + rail + ".0." + std::to_string(node + 1);
      network.add_bridge(node, "rail" + rail, address + "/24");
    }
    network.add_bridge(node, "docker0", "172.17.0.1/16");
    endpoints += (node > 0 ? "," : "") + network.address(node) + ":29400";
  }
  const std::string log = dir.file("events.jsonl");
  std::vector<std::unique_ptr<ChildProcess>> agents;
  for (int node = 0; node < kNodes; ++node) {
    agents.push_back(
        start(on_node(network, node,
                      {.endpoint = endpoints,
                       .options = {"--nnodes", "3:4", "--heartbeat-timeout", "3", "--event-log",
                                   log, "--rdzv-conf", "last_call_timeout=1"},
                       .program = shell("echo world=$WORLD_SIZE; while [ ! -e " + dir.file("end") +
                                        " ]; do sleep 0.02; done"),
                       .environment = {{"LOGLEVEL", "INFO"}}})));
  }
  const auto report = [&] {
    std::string text;
    for (const auto& agent : agents) {
      text += agent->report();
    }
    return text;
  };
  for (const auto& agent : agents) {
    REQUIRE(agent->wait_for_out("world=4"));
  }
  const auto vanished = std::chrono::system_clock::now().time_since_epoch();
  network.cut(0);
  for (int node = 1; node < kNodes; ++node) {
    REQUIRE(agents[static_cast<std::size_t>(node)]->wait_for_out("world=3"));
  }
  const double took = time_of(last_of(events_in(log), "attempt_assigned")) -
                      std::chrono::duration<double, std::milli>(vanished).count();
  INFO("the failover took " << took << " ms\n" << report());
  CHECK(took < 1.5 * 3'000);  // about one heartbeat timeout, as without them
  std::ofstream(dir.file("end")) << "now";
  for (int node = 1; node < kNodes; ++node) {
    CHECK(agents[static_cast<std::size_t>(node)]->exit_code() == 0);
    CHECK(count_of(agents[static_cast<std::size_t>(node)]->out(), "world=") == 2);
  }
}

}  // namespace ddprun::test
