// What users read after a failure: the same cause on every node, exit codes, the agent's own error
// file (torchrun contract, section 6; field I-19, I-20).
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/contract/error_file.h"
#include "tests/e2e/cluster.h"
#include "tests/support/needs.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

/// Nodes that run one shell line per worker, each with an error file of its own.
struct ShellJob : Cluster {
  ShellJob(int nodes, int nproc, const std::string& script, std::vector<std::string> options = {})
      : Cluster({.nodes = nodes,
                 .workers_per_node = nproc,
                 .options = std::move(options),
                 .program = {"sh", "-c", script}}) {
    for (int n = 0; n < nodes; ++n) {
      start(n, {.environment = {{"TORCHELASTIC_ERROR_FILE", error_file(n)}}});
    }
  }
  [[nodiscard]] std::string error_file(int n) const {
    return dir.file("agent" + std::to_string(n) + ".json");
  }
  TempDir dir;
};

std::string host_name() {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  return name;
}

std::string after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  return at == std::string::npos ? "" : text.substr(at);
}

}  // namespace

TEST_CASE("a failure is told when it happens, with what the worker said and what follows") {
  ShellJob job(1, 2,
               "if [ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT -lt 2 ]; then "
               "echo 'ValueError: bad batch 17' >&2; exit 3; fi; exec sleep 1000",
               {"--max-restarts", "2"});
  ChildProcess& node = job.node(0);
  const std::string said = "[ddprun] rank 1 on " + host_name() +
                           " exited with code 3: ValueError: bad batch 17; attempt ";
  CHECK(node.wait_for_err(said + "1 begins (restart 1 of at most 2)\n"));
  CHECK(node.wait_for_err(said + "2 begins (restart 2 of at most 2)\n"));
  CHECK(node.running());  // while the job goes on
  CHECK(count_of(node.err(), "[ddprun]") == 2);
}

TEST_CASE("the last failure is told too, with its signal by name, and that the job ends") {
  ShellJob spent(1, 2, "if [ $RANK = 0 ]; then kill -9 $$$$; fi; exec sleep 1000",
                 {"--max-restarts", "1"});
  CHECK(spent.node(0).exit_code() == 1);
  const std::string err = spent.node(0).err();
  INFO(err);
  // Where the kernel tells of memory, the line says that it was not that.
  const std::string said = "[ddprun] rank 0 on " + host_name() + " was killed by SIGKILL";
  CHECK(count_of(err, said) == 2);
  CHECK(count_of(err, "; attempt 1 begins (restart 1 of at most 1)\n") == 1);
  CHECK(count_of(err, "; the only restart is spent; the job ends\n") == 1);
  CHECK(count_of(err, "[ddprun]") == 2);
  CHECK(err.rfind("[ddprun]") < err.find("Root Cause"));
  ShellJob none(1, 1, "exit 4");
  CHECK(none.node(0).exit_code() == 1);
  CHECK(contains(none.node(0).err(),
                 "exited with code 4; no restart is allowed (--max-restarts 0); "
                 "the job ends\n"));
}

TEST_CASE("a failure is told on its own node and on the coordinator's, and nowhere else") {
  NEEDS_NAMESPACES();
  const std::string script =
      "if [ $RANK = 1 ] && [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then echo oops >&2; exit 3; fi; "
      "echo attempt=$TORCHELASTIC_RESTART_COUNT; exec sleep 1000";
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--max-restarts", "1"},
                   .program = {"sh", "-c", script},
                   .environment = {{"DDPRUN_JOB_TOKEN", "no line about who may join"}},
                   .namespaces = true});
  cluster.start_all();
  const std::string said =
      "[ddprun] rank 1 on node1 exited with code 3: oops; attempt 1 begins (restart 1 of at most "
      "1)\n";
  for (int n = 0; n < 3; ++n) {
    CHECK(cluster.node(n).wait_for_out("attempt=1"));
  }
  INFO(cluster.report());
  CHECK(cluster.node(0).err() == said);
  CHECK(count_of(cluster.node(1).err(), said) == 1);
  CHECK(cluster.node(2).err().empty());
  // A node that is gone tells nothing any more: the coordinator's does.
  ::kill(cluster.agent(2), SIGKILL);
  CHECK(cluster.node(0).wait_for_err("[ddprun] node node2 was lost ("));
  CHECK(
      cluster.node(0).wait_for_err("attempt 2 begins when 1 more node is here (costs no restart)"));
  CHECK(count_of(cluster.node(1).err(), "was lost") == 0);
}

TEST_CASE("a preemption is no failure") {
  ShellJob job(1, 2, "trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done");
  REQUIRE(job.node(0).wait_for_out("ready", 2));
  job.node(0).signal(SIGTERM);
  CHECK(job.node(0).exit_code() == 75);
  CHECK(count_of(job.node(0).err(), "[ddprun]") == 0);
}

// In an argument $$ stands for one $ (worker_contract_test.cc).
TEST_CASE("every node names the same cause, with its signal and its last line of stderr") {
  ShellJob job(2, 2,
               "echo \"rank $RANK speaks\" >&2; if [ $RANK = 2 ]; then echo 'the disk is on fire' "
               ">&2; kill -SEGV $$$$; fi; exec sleep 1000");
  CHECK(job.exit_codes() == std::vector{1, 1});
  INFO(job.report());
  for (const int n : {0, 1}) {
    const std::string cause = after(job.node(n).err(), "Root Cause");
    CHECK(contains(cause, "SIGSEGV"));
    CHECK(contains(cause, "2 (local_rank: 0)"));
    CHECK(contains(cause, "-11 (pid: "));
    CHECK(contains(cause, "the disk is on fire"));
    const auto record = parse_error_record(read_file(job.error_file(n)));
    REQUIRE(record.has_value());
    CHECK(record->error_code == -11);
  }
}

TEST_CASE("exit code 9 and SIGKILL are never confused") {
  ShellJob exits(1, 1, "exit 9");
  CHECK(exits.node(0).exit_code() == 1);
  CHECK(contains(after(exits.node(0).err(), "Root Cause"), "9 (pid: "));
  CHECK_FALSE(contains(exits.node(0).err(), "SIGKILL"));
  ShellJob killed(1, 1, "kill -9 $$$$");
  CHECK(killed.node(0).exit_code() == 1);
  CHECK(contains(after(killed.node(0).err(), "Root Cause"), "-9 (pid: "));
  CHECK(contains(killed.node(0).err(), "SIGKILL"));
}

TEST_CASE("a worker's own error file becomes the agent's, with the exit code added") {
  ShellJob job(
      2, 1,
      "if [ $RANK = 1 ]; then printf '%s' '{\"message\": {\"message\": \"ValueError: no\", "
      "\"extraInfo\": {\"py_callstack\": \"line 1\\nline 2\", \"timestamp\": "
      "\"1700000000\"}}}' > $TORCHELASTIC_ERROR_FILE; exit 5; fi; exec sleep 1000");
  CHECK(job.exit_codes() == std::vector{1, 1});
  INFO(job.report());
  for (const int n : {0, 1}) {
    const auto record = parse_error_record(read_file(job.error_file(n)));
    REQUIRE(record.has_value());
    CHECK(record->message == "ValueError: no");
    CHECK(record->error_code == 5);
    CHECK(contains(job.node(n).err(), "ValueError: no"));
  }
}

TEST_CASE("SIGINT or SIGTERM to one agent ends the job in order on every node") {
  for (const int signal : {SIGINT, SIGTERM}) {
    for (const int target : {0, 1}) {
      ShellJob job(2, 1,
                   "trap 'echo saved; exit 0' TERM INT; echo ready; while :; do sleep 0.02; done");
      REQUIRE(job.all_say({0, 1}, "ready"));
      job.node(target).signal(signal);
      const int code = signal == SIGINT ? 1 : 75;  // SIGTERM preempts, and they saved
      CHECK(job.exit_codes() == std::vector{code, code});
      INFO(job.report());
      CHECK(count_of(job.out(), "saved") == 2);
    }
  }
}

TEST_CASE("the restart budget is one for the whole job, and attempts are numbered job-wide") {
  // Rank 0 fails in attempts 0 and 2, rank 1 (the other node) in attempt 1.
  ShellJob job(2, 1,
               "echo \"rank $RANK attempt $TORCHELASTIC_RESTART_COUNT\"; "
               "case $RANK$TORCHELASTIC_RESTART_COUNT in 00|11|02) exit 7;; esac; "
               "[ $TORCHELASTIC_RESTART_COUNT = 3 ] || exec sleep 1000",
               {"--max-restarts", "3"});
  CHECK(job.exit_codes() == std::vector{0, 0});
  INFO(job.report());
  for (const int n : {0, 1}) {
    CHECK(count_of(job.node(n).out(), "attempt 3") == 1);
    // A worker that was stopped may not have come to speak; both nodes tell the same story.
    CHECK(contains(job.node(n).err(), "restarts used: 3 of 3"));
    for (const char* line : {"attempt 0 ended: rank 0 on", "attempt 1 ended: rank 1 on",
                             "attempt 2 ended: rank 0 on"}) {
      CHECK(count_of(job.node(n).err(), line) == 1);
    }
  }
}

TEST_CASE("nodes with different numbers of workers get prefix sums as ranks") {
  Cluster cluster({.nodes = 3,
                   .program = shell("echo \"rank $RANK/$WORLD_SIZE local "
                                    "$LOCAL_RANK/$LOCAL_WORLD_SIZE group "
                                    "$GROUP_RANK/$GROUP_WORLD_SIZE.\"")});
  // Neither the order in which they come nor the place in the cluster is that of the ranks.
  cluster.start(0, {.options = {"--nproc-per-node", "2", "--node-rank", "0"}});
  REQUIRE(listens("127.0.0.1", port_of(cluster.endpoint())));
  cluster.start(1, {.options = {"--nproc-per-node", "1", "--node-rank", "2"}});
  cluster.start(2, {.options = {"--nproc-per-node", "3", "--node-rank", "1"}});
  CHECK(cluster.exit_codes() == std::vector{0, 0, 0});
  struct Place {
    int node, workers, first_rank, group;
  };
  for (const Place place : {Place{0, 2, 0, 0}, Place{2, 3, 2, 1}, Place{1, 1, 5, 2}}) {
    std::string said = cluster.node(place.node).out();
    INFO(cluster.node(place.node).report());
    CHECK(count_of(said, "\n") == place.workers);
    for (int local = 0; local < place.workers; ++local) {
      CHECK(count_of(said, "rank " + std::to_string(place.first_rank + local) + "/6 local " +
                               std::to_string(local) + "/" + std::to_string(place.workers) +
                               " group " + std::to_string(place.group) + "/3.\n") == 1);
    }
  }
}

}  // namespace ddprun::test
