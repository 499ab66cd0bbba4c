// Nodes that have IPv6 addresses alone.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/needs.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {

TEST_CASE("two nodes with IPv6 alone meet at [address]:port, and train") {
  NEEDS_NAMESPACES();
  const TempDir dir;
  Cluster cluster({.program = shell("echo rank=$RANK store=$MASTER_ADDR; "
                                    "exec \"$TRAIN\" linear 5 5 --snapshot-path " +
                                    dir.file("snapshot")),
                   .environment = {{"TRAIN", find_program("train")}},
                   .namespaces = true,
                   .family = NetNamespaces::Family::ipv6});
  REQUIRE(cluster.endpoint() == "[fd77::1]:29400");
  cluster.start(1);  // comes first, and waits for the host
  cluster.start(0);
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  INFO(cluster.report());
  for (const std::string rank : {"0", "1"}) {
    CHECK(contains(cluster.node(0).out(), "rank=" + rank + " store=fd77::1\n"));
  }
  for (const std::string rank : {"2", "3"}) {
    CHECK(contains(cluster.node(1).out(), "rank=" + rank + " store=fd77::1\n"));
  }
  CHECK(count_of(cluster.out(), "Training finished: 5 epochs") == 1);
}

TEST_CASE("a wrong IPv6 endpoint is told with the address as it was given") {
  NEEDS_NAMESPACES();
  Cluster cluster(
      {.workers_per_node = 1,
       // The kernel asks for a neighbour once a second, and the first time may get lost.
       .options = {"--join-timeout", "5"},
       .program = {"true"},
       .namespaces = true,
       .family = NetNamespaces::Family::ipv6});
  // The other node's address, where nothing listens.
  ChildProcess& agent = cluster.start(0, {.endpoint = "[fd77::2]:29400"});
  CHECK(agent.exit_code() == 1);
  CHECK_THAT(line_after(agent.err(), "ddprun: "),
             Catch::Contains("fd77::2") && Catch::Contains("connection refused"));
}

}  // namespace ddprun::test
