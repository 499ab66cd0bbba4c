// An agent on the machine of the job's only endpoint takes its port over when the coordinator there
// ends: leaders and restarted agents find each other by it. Nodes are network namespaces.
#include <catch2/catch.hpp>
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

/// Three nodes in a world, and a spare on the machine of the endpoint, which the coordinator has.
class WithSpare {
 public:
  WithSpare() {
    coordinator = agent(0);
    REQUIRE(listens(network_.address(0), 29400, network_.name(0)));
    one = agent(1);
    two = agent(2);
    REQUIRE(one->wait_for_out("world=3"));
    REQUIRE(two->wait_for_out("world=3"));
    spare = agent(0);
    REQUIRE(spare->wait_for_err("this node is a spare"));
  }

  [[nodiscard]] std::unique_ptr<ChildProcess> agent(int node,
                                                    const std::string& nnodes = "3") const {
    return start(on_node(network_, node,
                         {.endpoint = network_.address(0) + ":29400",
                          .options = {"--nnodes", nnodes, "--heartbeat-timeout", "3"},
                          .program = shell("echo world=$WORLD_SIZE; while [ ! -e " +
                                           dir_.file("end") + " ]; do sleep 0.02; done"),
                          .environment = {{"LOGLEVEL", "INFO"}}}));
  }
  void ends_well(ChildProcess& replacement) const {
    std::ofstream(dir_.file("end")) << "now";
    for (ChildProcess* const node : {one.get(), two.get(), spare.get(), &replacement}) {
      CHECK(node->exit_code() == 0);
    }
    const auto next = agent(0, "1");
    INFO(next->report());
    CHECK(next->exit_code() == 0);
  }

 private:
  TempDir dir_;
  NetNamespaces network_{3};

 public:
  std::unique_ptr<ChildProcess> coordinator;  ///< these end before their network does
  std::unique_ptr<ChildProcess> one;
  std::unique_ptr<ChildProcess> two;
  std::unique_ptr<ChildProcess> spare;
};

}  // namespace

TEST_CASE(
    "A spare on the endpoint's machine is found there, and tells who comes where the job is") {
  NEEDS_NAMESPACES();
  WithSpare nodes;
  nodes.coordinator = nullptr;
  const bool found = nodes.spare->wait_for_out("world=3");
  INFO(nodes.one->report() << nodes.two->report() << nodes.spare->report());
  REQUIRE(found);
  const auto replacement = nodes.agent(0);
  CHECK(replacement->wait_for_err("this node is a spare"));
  INFO(replacement->report());
  CHECK_FALSE(contains(replacement->err(), "no coordinator any more"));  // it never was one
  nodes.ends_well(*replacement);
}

TEST_CASE("A replacement that starts with the end of the coordinator finds the job") {
  NEEDS_NAMESPACES();
  WithSpare nodes;
  nodes.coordinator = nullptr;
  const auto replacement = nodes.agent(0);
  // One of both is in the world, the other is a spare, whichever becomes the coordinator.
  const bool placed = wait_until(
      [&] {
        const std::string err = nodes.spare->err();
        const bool follows =
            count_of(err, "follows the coordinator") > count_of(err, "searching for the new one");
        const std::string said = replacement->err() + replacement->out();
        const bool came = contains(said, "follows the coordinator") ||
                          contains(said, "this node is a spare") || contains(said, "world=3");
        return follows && came && count_of(nodes.spare->out() + replacement->out(), "world=3") == 1;
      },
      kPatience);
  INFO(nodes.one->report() << nodes.two->report() << nodes.spare->report()
                           << replacement->report());
  CHECK(placed);
  nodes.ends_well(*replacement);
}

}  // namespace ddprun::test
