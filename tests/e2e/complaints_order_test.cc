// What users of torchrun report of ranks and of the end of a job: I-22 (rank 0 is not on the
// endpoint's host, node ranks are ignored), I-23 (early finishers wait a fixed time, then take the
// store away from slow ranks); and what people are shown while a job waits for nodes.
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"
#include "tests/support/needs.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// Every worker of the first attempt fails once all three have said where they are.
const std::vector<std::string> kSayRankTwice = shell(
    "echo attempt=$TORCHELASTIC_RESTART_COUNT group=$GROUP_RANK; "
    "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then touch $FOLDER/$RANK; "
    "until [ -e $FOLDER/0 -a -e $FOLDER/1 -a -e $FOLDER/2 ]; do sleep 0.02; done; exit 1; fi");

/// Starts the host, then the others, and returns each one's group rank, the same in both attempts.
std::vector<std::string> group_ranks(const std::vector<LoneAgent>& agents) {
  const TempDir folder;
  const std::string endpoint = local_endpoint();
  std::vector<std::unique_ptr<ChildProcess>> started;
  for (LoneAgent agent : agents) {
    agent.endpoint = endpoint;
    agent.options.insert(agent.options.end(), {"--nnodes", "3", "--max-restarts", "1"});
    agent.program = kSayRankTwice;
    agent.environment["FOLDER"] = folder.path();
    started.push_back(start(agent));
    if (started.size() == 1) {
      REQUIRE(listens("127.0.0.1", port_of(endpoint)));
    }
  }
  std::vector<std::string> ranks;
  for (const auto& agent : started) {
    const int code = agent->exit_code();
    INFO(agent->report());
    CHECK(code == 0);
    ranks.push_back(line_after(agent->out(), "attempt=1 group="));
    CHECK(line_after(agent->out(), "attempt=0 group=") == ranks.back());
  }
  return ranks;
}

using Ranks = std::vector<std::string>;

}  // namespace

TEST_CASE(
    "I-22: rank 0 is on the endpoint's host, whatever order is asked for, also after a restart") {
  CHECK(group_ranks({{.options = {"--node-rank", "7"}},
                     {.options = {"--node-rank", "2"}},
                     {.options = {"--node-rank", "1"}}}) == Ranks{"0", "2", "1"});
}

TEST_CASE("I-22: a scheduler's rank is the order of the nodes where no --node-rank is given") {
  for (const std::string variable :
       {"SLURM_PROCID", "SLURM_NODEID", "PMI_RANK", "OMPI_COMM_WORLD_RANK"}) {
    INFO(variable);
    CHECK(group_ranks({{.environment = {{variable, "0"}}},
                       {.environment = {{variable, "2"}}},
                       {.environment = {{variable, "1"}}}}) == Ranks{"0", "2", "1"});
  }
  // The same rank everywhere (a loop of single-task steps) is no reason to refuse anybody.
  CHECK(group_ranks({{.environment = {{"SLURM_PROCID", "0"}}},
                     {.environment = {{"SLURM_PROCID", "0"}}},
                     {.options = {"--node-rank", "0"}, .environment = {{"SLURM_PROCID", "0"}}}}) ==
        Ranks{"0", "2", "1"});
}

TEST_CASE("I-23: nodes that finish early wait for the slow one, whose store stays, and no longer") {
  const TempDir folder;
  const std::string go = folder.file("go");
  for (const std::string slow : {"0", "1"}) {
    INFO("the slow node is " << slow);
    std::error_code ignored;
    std::filesystem::remove(go, ignored);
    const std::vector<std::string> program = shell(
        "[ $RANK = " + slow + " ] || exit 0; echo port=$MASTER_PORT; until [ -e " + go +
        " ]; do sleep 0.02; done; exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT && echo reached");
    const std::string endpoint = local_endpoint();
    const LoneAgent agent{.endpoint = endpoint, .options = {"--nnodes", "2"}, .program = program};
    const auto host = start(agent);
    REQUIRE(listens("127.0.0.1", port_of(endpoint)));
    const auto other = start(agent);
    ChildProcess& late = slow == "0" ? *host : *other;
    ChildProcess& early = slow == "0" ? *other : *host;
    REQUIRE(late.wait_for_out("port="));
    // The early node's worker is gone, and reaped: its agent has said that it is finished.
    REQUIRE(wait_until([&] { return worker_of(early.pid(), slow == "0" ? 1 : 0) == 0; }));
    CHECK(early.running());
    CHECK(late.running());
    CHECK(listens("127.0.0.1", std::stoi(line_after(late.out(), "port="))));
    std::ofstream(go) << "go";
    CHECK(late.exit_code() == 0);
    CHECK(early.exit_code() == 0);
    INFO(late.report());
    CHECK(contains(late.out(), "reached"));
    CHECK(late.err().empty());
    CHECK(early.err().empty());
  }
}

TEST_CASE("While nodes are missing every node shows who is here, who was refused, who was lost") {
  const std::string endpoint = local_endpoint();
  const LoneAgent agent{.endpoint = endpoint,
                        .options = {"--nnodes", "4", "--nproc-per-node", "2"}};
  const auto host = start(agent);
  REQUIRE(listens("127.0.0.1", port_of(endpoint)));
  const auto second = start(agent);
  const auto third = start(agent);
  REQUIRE(host->wait_for_err("3 of 4 nodes here"));
  LoneAgent wrong = agent;
  wrong.options.insert(wrong.options.end(), {"--rdzv-id", "other"});
  CHECK(start(wrong)->exit_code() == 1);
  REQUIRE(host->wait_for_err("[ddprun]   refused  "));
  third->signal(SIGKILL);
  REQUIRE(third->wait());
  for (ChildProcess* const one : {host.get(), second.get()}) {
    REQUIRE(one->wait_for_err("[ddprun]   lost     "));
    const std::string err = one->err();
    INFO(err);
    CHECK(contains(err, "of 4 nodes here, waiting for "));
    CHECK(contains(err, " so far, for up to "));
    CHECK(contains(err, " from now"));
    CHECK(contains(err, ", the coordinator"));
    CHECK(contains(err, "this endpoint serves the job 'none', not 'other'"));
    CHECK(contains(err, "its connection closed"));
    CHECK(count_of(err, "nodes here") <= 4);
  }
  host->signal(SIGTERM);  // nothing ran: the same command may be given again
  CHECK(host->exit_code() == 75);
  CHECK(second->exit_code() == 75);
}

TEST_CASE("A replacement with the rank of a node that has just fallen silent is let in") {
  NEEDS_NAMESPACES();
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "2", "--join-timeout", "8"},
                   .program = shell("echo attempt=$TORCHELASTIC_RESTART_COUNT rank=$RANK; "
                                    "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000"),
                   .namespaces = true});
  cluster.start(0);
  cluster.start(1, {.options = {"--node-rank", "1"}});
  REQUIRE(cluster.worker(1) != 0);
  cluster.network().cut(1);
  // At once: nobody knows yet that node 1 is gone.
  ChildProcess& replacement = cluster.start(2, {.options = {"--node-rank", "1"}});
  INFO(cluster.report());
  CHECK(replacement.wait_for_err("node rank 1 is taken by node node1; this node takes its place"));
  CHECK(replacement.exit_code() == 0);
  CHECK(cluster.node(0).exit_code() == 0);
  CHECK(cluster.node(1).exit_code() == 1);  // it looked for its coordinator in vain
  CHECK(contains(replacement.out(), "attempt=1 rank=1"));
}

TEST_CASE("A node with the rank of one that lives is turned away as soon as that one is heard") {
  const std::string endpoint = local_endpoint();
  const LoneAgent agent{.endpoint = endpoint, .options = {"--nnodes", "3"}};
  const auto host = start(agent);
  REQUIRE(listens("127.0.0.1", port_of(endpoint)));
  LoneAgent ranked = agent;
  ranked.options = {"--nnodes", "3", "--node-rank", "1"};
  const auto holder = start(ranked);
  REQUIRE(host->wait_for_err("2 of 3 nodes here"));
  const auto other = start(ranked);
  CHECK(other->exit_code() == 1);
  INFO(other->report());
  CHECK(contains(line_after(other->err(), "ddprun: "), "node rank 1 is taken by node "));
  CHECK(contains(other->err(), "which is alive; give each node a --node-rank of its own"));
  CHECK(holder->running());
  host->signal(SIGTERM);
}

TEST_CASE("A wedged agent that owes its stop is lost after the heartbeat timeout, and replaced") {
  Cluster cluster(
      {.nodes = 2,
       .workers_per_node = 1,
       .options = {"--max-restarts", "1", "--heartbeat-timeout", "3", "--join-timeout", "10"},
       .program = shell("echo attempt=$TORCHELASTIC_RESTART_COUNT rank=$RANK; "
                        "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000")});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "attempt=0"));
  const pid_t wedged = cluster.agent(1);
  REQUIRE(wedged != 0);
  ::kill(wedged, SIGSTOP);
  cluster.signal_worker(0, SIGKILL);
  // The job stands in "stopping" until the wedged node is lost; then it says whom it waits for.
  ChildProcess& host = cluster.node(0);
  REQUIRE(host.wait_for_err("[ddprun]   lost  "));
  INFO(cluster.report());
  CHECK(contains(host.err(), "1 of 2 nodes here, waiting for 1 more"));
  CHECK(contains(host.err(), "it was silent for "));
  const auto replacement =
      start({.endpoint = cluster.endpoint(),
             .options = {"--nnodes", "2", "--max-restarts", "1", "--heartbeat-timeout", "3"},
             .program = shell("echo attempt=$TORCHELASTIC_RESTART_COUNT rank=$RANK; "
                              "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || sleep 1000")});
  CHECK(host.exit_code() == 0);
  CHECK(replacement->exit_code() == 0);
  ::kill(wedged, SIGCONT);
  CHECK(cluster.node(1).exit_code() == 1);
}

}  // namespace ddprun::test
