// The address of the job's endpoint moves to another host, as that of a pod, or a virtual one,
// does: who listens there is not where the coordinator was. Nodes are network namespaces.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

constexpr char kMoves[] = "10.77.0.100";

std::vector<std::string> endless() {
  return shell("echo world=$WORLD_SIZE; sleep 1000");
}

}  // namespace

TEST_CASE("A half of the nodes does not go on at an endpoint that moved to its side") {
  NEEDS_NAMESPACES();
  NetNamespaces network(5);
  network.add_address(0, std::string(kMoves) + "/24", "eth0");
  const auto agent = [&](int node) {
    return start(on_node(network, node,
                         {.endpoint = std::string(kMoves) + ":29400",
                          .options = {"--nnodes", "2:4", "--heartbeat-timeout", "3", "--rdzv-conf",
                                      "last_call_timeout=1"},
                          .program = endless()}));
  };
  std::vector<std::unique_ptr<ChildProcess>> agents;
  agents.push_back(agent(0));
  REQUIRE(listens(kMoves, 29400, network.name(0)));
  for (const int node : {1, 2, 3}) {
    agents.push_back(agent(node));
  }
  const auto report = [&] {
    std::string text;
    for (const auto& one : agents) {
      text += one->report();
    }
    return text;
  };
  for (const auto& one : agents) {
    REQUIRE(one->wait_for_out("world=4"));
  }
  // The coordinator, with one of the others, keeps half of the voters.
  network.split({2, 3, 4});
  network.add_address(4, std::string(kMoves) + "/24", "eth0");
  for (const int node : {2, 3}) {
    network.forget_neighbours(node);
  }
  agents.push_back(agent(4));
  const bool goes_on = agents[0]->wait_for_out("world=2") && agents[1]->wait_for_out("world=2");
  const bool waits = agents[4]->wait_for_err("2 of the 4 nodes that decide for the job are here");
  // What it says a second time comes more than a heartbeat timeout later.
  const bool waits_on =
      agents[4]->wait_for_err("2 of the 4 nodes that decide for the job are here", 2);
  INFO(report());
  CHECK(goes_on);
  CHECK(waits);
  CHECK(waits_on);
  CHECK(agents[4]->out().empty());
  CHECK(count_of(agents[2]->out() + agents[3]->out(), "world=") == 2);
}

namespace {

/// Two nodes that no supervisor told apart: the coordinator's host loses power, and its address is
/// there again, on a host that has this boot id and this machine id. No node saw a connection
/// close.
class AnotherBoot {
 public:
  AnotherBoot() {
    before_ = host("before", 'a', 'b');
    first = agent(0, before_);
    REQUIRE(listens(network_.address(0), 29400, network_.name(0)));
    second = agent(1, host("other", 'c', 'd'));
    REQUIRE(second->wait_for_out("world=2"));
    network_.cut(0);
    first = nullptr;
    REQUIRE(second->wait_for_err("searching for the new one"));
    network_.heal(0);
  }
  void boots(char boot, char machine) { first = agent(0, host("after", boot, machine)); }

 private:
  using Files = std::map<std::string, std::string>;

  Files host(const std::string& name, char boot, char machine) const {
    const std::string boot_id = dir_.file(name + ".boot");
    const std::string machine_id = dir_.file(name + ".machine");
    std::ofstream(boot_id) << std::string(8, boot) << "-4000-4000-8000-" << std::string(12, boot)
                           << "\n";
    std::ofstream(machine_id) << std::string(32, machine) << "\n";
    return {{"/proc/sys/kernel/random/boot_id", boot_id}, {"/etc/machine-id", machine_id}};
  }
  std::unique_ptr<ChildProcess> agent(int node, const Files& files) {
    return start(on_node(network_, node,
                         {.endpoint = network_.address(0) + ":29400",
                          .options = {"--nnodes", "2", "--heartbeat-timeout", "3"},
                          .program = endless(),
                          .files = files}));
  }

  TempDir dir_;
  NetNamespaces network_{2};
  Files before_;

 public:
  std::unique_ptr<ChildProcess> first;  ///< these end before their network does
  std::unique_ptr<ChildProcess> second;
};

}  // namespace

TEST_CASE("The job goes on when the coordinator's host was started again") {
  NEEDS_NAMESPACES();
  AnotherBoot nodes;
  nodes.boots('e', 'b');
  const bool goes_on =
      nodes.second->wait_for_out("world=2", 2) && nodes.first->wait_for_out("world=2");
  INFO(nodes.first->report() << nodes.second->report());
  CHECK(goes_on);
}

TEST_CASE("The job waits when another host has the address of the coordinator's") {
  NEEDS_NAMESPACES();
  AnotherBoot nodes;
  nodes.boots('e', 'f');
  const bool waits =
      nodes.first->wait_for_err("1 of the 2 nodes that decide for the job are here", 2);
  INFO(nodes.first->report() << nodes.second->report());
  CHECK(waits);
  CHECK(nodes.first->out().empty());
  CHECK(count_of(nodes.second->out(), "world=") == 1);
}

}  // namespace ddprun::test
