// Jobs that stand still: found, explained, and brought to go on. The tests bear the names of the
// complaints that they answer.
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/child_process.h"
#include "tests/support/control_group.h"
#include "tests/support/event_wait.h"
#include "tests/support/needs.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

using Clock = std::chrono::steady_clock;

std::vector<std::string> stands_still(const std::string& mode, int rank) {
  return {HANG_WORKER, "20", mode, std::to_string(rank), "17"};
}

}  // namespace

TEST_CASE("I-12: of four ranks on two nodes the one that does not come is named, and where it is") {
  const TempDir logs;
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 2,
                   .options = {"--hang-timeout", "2", "--max-restarts", "1", "--shutdown-timeout",
                               "1", "--log-dir", logs.path().string()},
                   .program = stands_still("deaf", 3)});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.wait_for("stepped 3 17"));
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  const std::string report = cluster.report();
  INFO(report);
  const std::string mark = "made no progress for ";
  REQUIRE(contains(report, mark));
  const double seconds = std::stod(report.substr(report.find(mark) + mark.size()));
  CHECK(seconds >= 2);
  CHECK(seconds < 3);  // the timeout and a second
  for (const int node : {0, 1}) {
    const std::string err = cluster.node(node).err();
    CHECK(contains(err, "rank 3 on "));
    CHECK(contains(err, "hung: ranks 0-2 wait in all_reduce #"));
    CHECK(contains(err, "(4 MiB); rank 3 has not entered it: it is at training step 17"));
    CHECK(contains(err, "restarts used: 1 of 1"));
    CHECK(contains(err, "pause"));  // the newest frame of what it does instead
  }
  // Each worker's stacks are beside its logs.
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(logs.path())) {
    if (entry.path().filename() == "stacks.txt") {
      ++files;
      CHECK(contains(read_file(entry.path()), "newest frame first"));
    }
  }
  CHECK(files == 4);
  CHECK(cluster.left_behind().empty());
}

TEST_CASE("Stack tools that fail or hang keep no job from going on, and what they print is kept") {
  // The worker answers no signal for stacks: so the first of these on PATH is asked.
  struct Tool {
    bool python;
    std::string script;  ///< $2 is the worker's pid
  };
  const auto [python, script] = GENERATE(
      Tool{false, "echo frames of $2"}, Tool{true, "echo frames of $2"},
      Tool{false, "echo frames of $2; exit 1"}, Tool{true, "echo frames of $2; exec sleep 1000"});
  const TempDir dir;
  dir.write("bin/eu-stack", "#!/bin/sh\n[ $1 = -p ] && " + script + "\n");
  dir.write("bin/py-spy", "#!/bin/sh\n[ \"$1 $2\" = 'dump --pid' ] && shift && " + script + "\n");
  const std::string stands = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; echo $$$$ > " +
                             dir.file("pid") + "; exec " +
                             (python ? "python3 -c 'import time; time.sleep(1000)'" : "sleep 1000");
  const Finished job =
      run({.argv = {"ddprun", "--standalone", "--hang-timeout", "1", "--max-restarts", "1",
                    "--log-dir", dir.file("logs"), "sh", "-c", stands},
           .environment = {{"PATH", dir.file("bin") + ":/usr/bin:/bin"}}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(contains(job.err, "restarts used: 1 of 1"));
  std::string stacks;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.file("logs"))) {
    stacks += entry.path().filename() == "stacks.txt" ? read_file(entry.path()) : "";
  }
  CHECK(contains(stacks, dir.file(python ? "bin/py-spy" : "bin/eu-stack") + ":\nframes of " +
                             read_file(dir.file("pid"))));
}

TEST_CASE("I-12: a rule can end the job that hangs, and the cause is the rank that did not come") {
  const Finished job = run(
      {.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "--hang-timeout", "1",
                "--max-restarts", "3", "--on", "hang=fail", HANG_WORKER, "20", "sleep", "1", "5"}});
  INFO(job.err);
  CHECK(job.exit_code == 1);
  CHECK(contains(job.err, "that ends the job (--on hang=fail)"));
  CHECK(contains(job.err, "restarts used: 0 of 3"));
  const auto root = job.err.find("Root Cause");
  REQUIRE(root != std::string::npos);
  CHECK(contains(job.err.substr(root), "rank      : 1 (local_rank: 1)"));
  CHECK(contains(job.err.substr(root), "hung: rank 0 waits in all_reduce #"));
}

TEST_CASE("I-16: a worker that is stopped is found, named as such, and gone within the bound") {
  ChildProcess job({.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "--hang-timeout",
                             "1", "--max-restarts", "1", "--shutdown-timeout", "2", HANG_WORKER,
                             "20", "stop", "1", "5"}});
  REQUIRE(job.wait_for_out("stepped 1 5"));
  const auto still_since = Clock::now();
  CHECK(job.exit_code() == 0);
  const auto took = Clock::now() - still_since;
  INFO(job.report());
  CHECK(contains(job.err(),
                 "rank 1 has not entered it: it is at training step 5, "
                 "stopped by a signal (state T)"));
  // The timeout, the stacks, the shutdown timeout, and a second attempt on a busy machine.
  CHECK(took < 1s + 3s + 2s + 10s);
}

TEST_CASE(
    "I-16: a node whose worker SIGKILL does not end says so and leaves, and the job goes on") {
  const auto freezer = ControlGroup::freezer();
  NEEDS_GROUP(freezer);
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--hang-timeout", "1", "--max-restarts", "1",
                               "--shutdown-timeout", "1"},
                   .program = stands_still("sleep", 1)});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.wait_for("stepped 1 17"));
  const pid_t still = cluster.worker(1);
  REQUIRE(still != 0);
  freezer.add(still);
  freezer.freeze();
  const auto frozen = Clock::now();
  // It waits for the hang's detection, the stacks, SIGTERM's and SIGKILL's times, and what is left.
  CHECK(cluster.node(1).exit_code(60s) == 1);
  CHECK(Clock::now() - frozen < 1s + 3s + 1s + 5s + 3s + 5s);
  CHECK(cluster.node(0).exit_code() == 0);
  INFO(cluster.report());
  CHECK(contains(cluster.node(1).err(), "SIGKILL does not end process "));
  CHECK(contains(cluster.node(1).err(), "(rank 1), which is in an uninterruptible wait (state D"));
  CHECK(contains(cluster.node(0).err(),
                 "rank 1 has not entered it: it is at training step 17, in "
                 "an uninterruptible wait (state D"));
}

TEST_CASE("Workers without the runtime hang when none uses the processor or writes anything") {
  const std::string script =
      "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then echo waiting; exec sleep 1000; fi; echo done";
  ChildProcess job({.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "--hang-timeout",
                             "1", "--max-restarts", "1", "sh", "-c", script}});
  REQUIRE(job.wait_for_out("waiting"));
  CHECK(job.exit_code() == 0);
  INFO(job.report());
  CHECK(contains(job.err(), "ranks 0, 1 made no progress for 1"));
  CHECK(contains(job.err(), "workers hung: ranks 0, 1 tell nothing"));
}

TEST_CASE("A worker that writes now and then does not hang, however little it computes") {
  const std::string script = "for i in 1 2 3 4 5 6; do echo $i >&2; sleep 0.5; done";
  const Finished job =
      run({.argv = {"ddprun", "--standalone", "--hang-timeout", "2", "sh", "-c", script}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
}

TEST_CASE("What goes into the file that is ddprun's own stdout is progress, too") {
  const TempDir dir;
  const std::string script = "for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done";
  const Finished job =
      run({.argv = {"sh", "-c", "exec \"$0\" --standalone --hang-timeout 2 sh -c \"$1\" >\"$2\"",
                    find_program("ddprun"), script, dir.file("out")}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(read_file(dir.file("out")) == "1\n2\n3\n4\n5\n6\n");
}

TEST_CASE("Without the option nothing is watched") {
  // Two like jobs that stand still side by side. Once the one that is watched was found and ended,
  // the other stands still as long, and nobody minds.
  const auto standing_still = [](std::vector<std::string> options) {
    options.insert(options.begin(), {"--standalone", "--nproc-per-node", "2"});
    return start({.options = options,
                  .program = {HANG_WORKER, "20", "sleep", "1", "5"},
                  .environment = {{"LOGLEVEL", "INFO"}, {"PYTHONFAULTHANDLER", ""}}});
  };
  const auto free = standing_still({});
  REQUIRE(free->wait_for_out("stepped 1 5"));
  const auto watched = standing_still({"--hang-timeout", "1", "--on", "hang=fail"});
  REQUIRE(watched->exit_code() == 1);
  CHECK(contains(watched->err(), "made no progress for 1"));
  INFO(free->report());
  CHECK(free->running());
  CHECK_FALSE(contains(free->err(), "progress"));
  const pid_t worker = worker_of(free->pid(), 1);
  REQUIRE(worker != 0);
  CHECK(environment_of(worker, "PYTHONFAULTHANDLER").empty());
  CHECK_FALSE(environment_of(worker_of(free->pid(), 0), "RANK").empty());
}

}  // namespace ddprun::test
