// A coordinator whose agent stands still until its nodes have left it, and that is cut off then,
// knows of them only that their connections closed. Nodes are network namespaces.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/event_wait.h"
#include "tests/support/needs.h"

namespace ddprun::test {

TEST_CASE("A coordinator that its nodes left while it stood still does not go on alone") {
  NEEDS_NAMESPACES();
  Cluster cluster({.nodes = 4,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:4", "--heartbeat-timeout", "3", "--rdzv-conf",
                               "last_call_timeout=1"},
                   .program = shell("echo world=$WORLD_SIZE; sleep 1000"),
                   .namespaces = true});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2, 3}, "world=4"));
  // The second coordinator is at no endpoint: nobody knocks there who could tell it of a successor.
  cluster.node(0).signal(SIGKILL);
  REQUIRE(cluster.all_say({1, 2, 3}, "world=3"));
  const std::string leads = "this node is the coordinator from here on";
  int leader = 1;
  while (leader < 3 && !contains(cluster.node(leader).err(), leads)) {
    ++leader;
  }
  const std::vector<int> others = leader == 1   ? std::vector<int>{2, 3}
                                  : leader == 2 ? std::vector<int>{1, 3}
                                                : std::vector<int>{1, 2};
  REQUIRE(contains(cluster.node(leader).err(), leads));
  const pid_t agent = cluster.agent(leader);
  REQUIRE(agent != 0);
  ::kill(agent, SIGSTOP);
  for (const int other : others) {
    REQUIRE(cluster.node(other).wait_for_err("searching for the new one", 2));
  }
  cluster.network().cut(leader);
  ::kill(agent, SIGCONT);
  // Whichever it sees first: that its quorum is too long ago, or that its nodes' connections ended;
  // then its workers are stopped, and it waits for a quorum.
  const bool waits = wait_until([&] {
    const std::string said = cluster.node(leader).err();
    return contains(said, "this node is no coordinator any more") ||
           contains(said, "1 of the 3 nodes that decide for the job are here, 2 are needed");
  });
  const bool go_on = cluster.all_say(others, "world=2");
  INFO(cluster.report());
  CHECK(waits);
  CHECK(go_on);
  CHECK_FALSE(contains(cluster.node(leader).out(), "world=1"));
  cluster.network().heal(leader);
  CHECK(cluster.node(leader).wait_for_out("world=3", 2));
}

}  // namespace ddprun::test
