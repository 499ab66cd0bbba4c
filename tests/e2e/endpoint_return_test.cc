// The agent at the job's first endpoint is restarted while it cannot know that the job goes on
// elsewhere: both find each other. Nodes are network namespaces.
#include <sys/types.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/processes.h"

namespace ddprun::test {
namespace {

/// All of them on this machine, so the spare does not vote.
ClusterRequest two_nodes_and_a_spare() {
  return {.nodes = 3,
          .workers_per_node = 1,
          .options = {"--nnodes", "2", "--heartbeat-timeout", "1"},
          .program = shell("echo world=$WORLD_SIZE attempt=$TORCHELASTIC_RESTART_COUNT; "
                           "exec sleep 1000")};
}

/// Node 2 is the spare.
void start_with_spare(Cluster& cluster) {
  REQUIRE(cluster.start_in_order(2));
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  cluster.start(2);
  REQUIRE(cluster.node(2).wait_for_err("this node is a spare"));
}

}  // namespace

TEST_CASE("An agent that begins at the first endpoint is called by the leader of its job") {
  NEEDS_NAMESPACES();
  NetNamespaces network(3);
  const std::string endpoints = network.address(0) + ":29400," + network.address(1) + ":29400";
  const auto agent = [&](int node) {
    return start(on_node(network, node,
                         {.endpoint = endpoints,
                          .options = {"--nnodes", "3", "--heartbeat-timeout", "3"},
                          .program = shell("echo world=$WORLD_SIZE; sleep 1000"),
                          .environment = {{"LOGLEVEL", "INFO"}}}));
  };
  auto first = agent(0);
  REQUIRE(listens(network.address(0), 29400, network.name(0)));
  const auto second = agent(1);
  const auto third = agent(2);
  const auto all_run = [&](int worlds) {
    const bool run = second->wait_for_out("world=3", worlds) &&
                     third->wait_for_out("world=3", worlds) && first->wait_for_out("world=3");
    INFO(first->report() << second->report() << third->report());
    REQUIRE(run);
  };
  all_run(1);
  // Its next lives follow another coordinator, at ports that none after them has. The leader calls
  // the voters of two worlds: the first life, which had the endpoint's port, is of none of these.
  first = nullptr;
  REQUIRE(wait_until(
      [&] {
        const std::string leads = "this node is the coordinator from here on";
        return contains((second->err() + third->err()), leads);
      },
      kPatience));
  first = agent(0);
  all_run(2);
  first = nullptr;
  first = agent(0);
  all_run(3);
  // It starts cut off: so it finds nobody, and gathers as for a new job.
  first = nullptr;
  network.cut(0);
  first = agent(0);
  REQUIRE(first->wait_for_err("1 of 3 nodes here"));
  network.heal(0);
  all_run(4);
  CHECK(contains(first->err(), "a coordinator of a later term took over"));
  for (ChildProcess* const one : {first.get(), second.get(), third.get()}) {
    one->signal(SIGTERM);
  }
  for (ChildProcess* const one : {first.get(), second.get(), third.get()}) {
    CHECK(one->wait());
  }
}

/// The workers of the node that stands still run on. A spare has no copy of the job's state, but it
/// was told that there is a job.
TEST_CASE("An agent that begins at the endpoint starts nothing with a spare alone") {
  Cluster cluster(two_nodes_and_a_spare());
  start_with_spare(cluster);
  const pid_t member = cluster.agent(1);
  REQUIRE(member != 0);
  ::kill(member, SIGSTOP);
  ::kill(cluster.node(0).pid(), SIGKILL);
  // Before, the new agent could join the old one as a spare.
  REQUIRE(cluster.node(2).wait_for_err("the coordinator was lost"));
  cluster.start(0);
  const bool waits =
      cluster.node(0).wait_for_err("none of the nodes that decide for the job is here");
  const std::string of_spare = cluster.node(2).out();
  ::kill(member, SIGCONT);
  const bool goes_on = cluster.node(1).wait_for_out("world=2", 2);
  INFO(cluster.report());
  CHECK(waits);
  CHECK(of_spare.empty());
  CHECK(goes_on);
  CHECK(contains(cluster.node(1).out(), "attempt=2"));
  for (const int node : {0, 1, 2}) {
    cluster.node(node).signal(SIGTERM);
  }
  CHECK(cluster.exit_codes() == std::vector<int>(3, 1));
  CHECK(cluster.said(": 1 incident,"));
  CHECK(cluster.left_behind().empty());
}

TEST_CASE("A spare at the endpoint stands in for a coordinator that nobody else can follow") {
  Cluster cluster(two_nodes_and_a_spare());
  start_with_spare(cluster);
  ::kill(cluster.node(0).pid(), SIGKILL);
  const bool goes_on = cluster.node(1).wait_for_out("world=2", 2);
  INFO(cluster.report());
  CHECK(goes_on);
  CHECK(cluster.node(2).wait_for_out("world=2 attempt=2"));
  for (const int node : {1, 2}) {
    cluster.node(node).signal(SIGTERM);
  }
  CHECK(cluster.exit_codes() == std::vector<int>{-SIGKILL, 1, 1});
  CHECK(cluster.said(": 1 incident,"));
  CHECK(cluster.left_behind().empty());
}

TEST_CASE("A coordinator that is restarted goes on with the restart budget and the history") {
  NEEDS_NAMESPACES();
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "2", "--max-restarts", "1", "--heartbeat-timeout", "3"},
                   .program = shell("echo world=$WORLD_SIZE; sleep 1000"),
                   .namespaces = true});
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  cluster.signal_worker(1, SIGKILL);
  REQUIRE(cluster.node(0).wait_for_out("world=2", 2));
  REQUIRE(cluster.node(1).wait_for_out("world=2", 2));
  for (int time = 3; time <= 4; ++time) {
    ::kill(cluster.agent(0), SIGKILL);
    REQUIRE(cluster.node(1).wait_for_err("searching for the new one", time - 2));
    cluster.start(0);
    INFO(cluster.report());
    REQUIRE(cluster.node(1).wait_for_out("world=2", time));
    REQUIRE(cluster.node(0).wait_for_out("world=2"));
  }
  cluster.signal_worker(1, SIGKILL);
  const std::vector<int> codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(codes == std::vector<int>{1, 1});
  CHECK(cluster.said("the only restart is spent"));
  CHECK(contains(cluster.node(0).err(), "job failed after 4 attempts"));
  CHECK(contains(cluster.node(0).err(), "restarts used: 1 of 1"));
  CHECK(count_of(cluster.node(0).err(), "the coordinator was lost") >= 2);
}

TEST_CASE("A node that remembers more attempts than a job that began anew is taken in") {
  NEEDS_NAMESPACES();
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--max-restarts", "9", "--heartbeat-timeout", "2",
                               "--rdzv-conf", "last_call_timeout=1"},
                   .program = shell("echo world=$WORLD_SIZE; sleep 1000"),
                   .namespaces = true});
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  for (int time = 2; time <= 4; ++time) {
    cluster.signal_worker(1, SIGKILL);
    REQUIRE(cluster.node(0).wait_for_out("world=2", time));
    REQUIRE(cluster.node(1).wait_for_out("world=2", time));
  }
  cluster.network().cut(1);
  ::kill(cluster.agent(0), SIGKILL);
  cluster.start(0);
  REQUIRE(cluster.all_say({0}, "world=1"));
  cluster.network().heal(1);
  const bool grows = cluster.node(1).wait_for_out("world=2", 5);
  INFO(cluster.report());
  CHECK(grows);
  CHECK_FALSE(cluster.said("attempt numbers only rise"));
  cluster.node(0).signal(SIGTERM);
  CHECK(cluster.exit_codes() == std::vector<int>(2, 1));
}

TEST_CASE("A coordinator that is restarted starts nothing while a node that is cut off runs") {
  NEEDS_NAMESPACES();
  Cluster cluster({.nodes = 5,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "4", "--heartbeat-timeout", "6"},
                   .program = shell("echo world=$WORLD_SIZE; sleep 1000"),
                   .namespaces = true});
  REQUIRE(cluster.start_in_order(4));
  REQUIRE(cluster.all_say({0, 1, 2, 3}, "world=4"));
  REQUIRE(cluster.start(4).wait_for_err("this node is a spare"));
  const std::vector<pid_t> workers = cluster.workers_of(3);
  REQUIRE(workers.size() == 1);
  cluster.network().cut(3);
  ::kill(cluster.agent(0), SIGKILL);
  cluster.start(0);
  const bool goes_on = cluster.all_say({0, 4}, "world=4");
  const bool overlaps = process_runs(workers.front());
  INFO(cluster.report());
  CHECK(goes_on);
  CHECK_FALSE(overlaps);
  CHECK(contains(cluster.node(0).err(), "may run workers until its lease is over"));
}

}  // namespace ddprun::test
