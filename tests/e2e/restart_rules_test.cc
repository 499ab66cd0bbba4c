// What a fault costs and when it ends the job, through the built program: --restart-window, the
// pauses before attempts that follow futile ones, --no-progress-limit, --on
// (docs/membership.md; every row of the rules: tests/unit/membership/restart_policy_test.cc).
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/event_lines.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/control_group.h"
#include "tests/support/needs.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using Words = std::vector<std::string>;

/// One node with one worker: these options, and these acts, attempt by attempt.
Finished acted(Words options, const Words& acts) {
  Words argv{"ddprun", "--standalone"};
  argv.insert(argv.end(), options.begin(), options.end());
  argv.push_back(ACTING_WORKER);
  argv.insert(argv.end(), acts.begin(), acts.end());
  return run({.argv = argv});
}

void check_failed(const Finished& job, int attempts, const std::string& why,
                  const std::string& used) {
  INFO(job.err);
  CHECK(job.exit_code == 1);
  CHECK(contains(job.err, "job failed after " + std::to_string(attempts) + " attempt"));
  CHECK(contains(job.err, why));
  CHECK(contains(job.err, "restarts used: " + used));
}

}  // namespace

TEST_CASE("A --restart-window ends a job that fails too often, whatever --max-restarts allows") {
  check_failed(acted({"--max-restarts", "100", "--restart-window", "2/1h"}, {"step:1,exit:3"}), 3,
               "2 restarts within 3600 s are spent (--restart-window)", "2 of 100");
}

TEST_CASE("Restarts of a --restart-window are there again when it has passed") {
  const std::string fails_four_times =
      "[ $TORCHELASTIC_RESTART_COUNT = 4 ] || { sleep 0.6; exit 3; }";
  const Finished job = run({.argv = {"ddprun", "--standalone", "--max-restarts", "100",
                                     "--restart-window", "2/1s", "sh", "-c", fails_four_times}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(contains(job.err, "restarts used: 4 of 100"));
}

TEST_CASE("Attempts that end before their first step are followed by a growing pause") {
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  const Finished job =
      acted({"--max-restarts", "9", "--no-progress-limit", "100", "--event-log", log},
            {"exit:3", "exit:3", "exit:3", "step:5,exit:3", "exit:0"});
  INFO(job.err);
  REQUIRE(job.exit_code == 0);
  const auto assigned = all_of(events_in(log), "attempt_assigned");
  const auto ended = all_of(events_in(log), "incident");
  REQUIRE(assigned.size() == 5);
  REQUIRE(ended.size() == 4);
  // After the second in a row 1 s, then 2 s; one that made a step is followed by none.
  const double pauses_ms[] = {0, 1'000, 2'000, 0};
  for (std::size_t i = 0; i < 4; ++i) {
    INFO("the pause before attempt " << i + 1);
    const double pause = time_of(assigned[i + 1]) - time_of(ended[i]);
    // Both instants are cut to milliseconds of the wall clock, which is corrected now and then.
    CHECK(pause >= pauses_ms[i] - 10);
    CHECK(pause < pauses_ms[i] + 1'000);
  }
}

TEST_CASE("Three attempts in a row without progress end the job") {
  check_failed(acted({"--max-restarts", "100"}, {"step:5,exit:3"}), 4,
               "3 attempts in a row made no progress: no newer snapshot, and no more steps than "
               "before (--no-progress-limit)",
               "3 of 100");
}

TEST_CASE("The --no-progress-limit says how many attempts without progress end the job") {
  check_failed(acted({"--max-restarts", "100", "--no-progress-limit", "1"}, {"step:5,exit:3"}), 2,
               "1 attempt in a row made no progress", "1 of 100");
  // 0: none does.
  check_failed(acted({"--max-restarts", "5", "--no-progress-limit", "0"}, {"step:5,exit:3"}), 6,
               "all 5 restarts are spent", "5 of 5");
}

TEST_CASE("Each newer snapshot is progress, with however few steps") {
  const Finished job = acted({"--max-restarts", "9", "--no-progress-limit", "1"},
                             {"step:5,save:0,exit:3", "step:1,save:1,exit:3",
                              "step:1,save:2,exit:3", "step:1,save:3,exit:3", "exit:0"});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(contains(job.err, "restarts used: 4 of 9"));
}

TEST_CASE("I-21: a worker that throws ddp::DoNotRetry is not started again") {
  const Finished job = acted({"--max-restarts", "5"}, {"step:1,no-retry"});
  check_failed(job, 1, "the worker asked not to be started again", "0 of 5");
  CHECK(contains(job.err, "there is no such data set"));
  // Without error files, as on a full disk.
  check_failed(acted({"--max-restarts", "5", "--log-dir", "/dev/null"}, {"step:1,no-retry"}), 1,
               "the worker asked not to be started again", "0 of 5");
}

TEST_CASE("A worker's wish not to be started again holds though its victim ends first") {
  const TempDir dir;
  const std::string fails = R"(cd "$0"; say() { echo '{"message": {"message": "'"$1"'", "extraInfo":
    {"py_callstack": "", "timestamp": "1700000000", "retry": '$2'}}}' >"$TORCHELASTIC_ERROR_FILE"; }
    [ $RANK = 1 ] || { say "there is no such data set" false; : >told; exec sleep 60; }
    until [ -e told ]; do sleep 0.01; done
    until [ tick -nt told ]; do : >tick; sleep 0.01; done
    say "Connection closed by peer [1]" true; exit 1)";
  const Finished job =
      run({.argv = {"ddprun", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3", "sh",
                    "-c", fails, dir.path().string()}});
  check_failed(job, 1, "the worker asked not to be started again", "0 of 3");
  CHECK(contains(job.err, "rank 0 on "));
  CHECK(contains(job.err, "there is no such data set; stopped on its way out"));
}

TEST_CASE("Rules --on signal, SIGNAL and start tell faults apart") {
  const Words fail_signal{"--max-restarts", "2", "--on", "signal=fail"};
  check_failed(acted(fail_signal, {"step:1,kill:15"}), 1, "that ends the job (--on signal=fail)",
               "0 of 2");
  check_failed(acted(fail_signal, {"step:1,exit:3", "step:2,exit:3", "step:3,exit:3"}), 3,
               "all 2 restarts are spent", "2 of 2");
  const Words start{"--max-restarts", "2", "--on", "start=fail"};
  check_failed(acted(start, {"exit:3"}), 1, "that ends the job (--on start=fail)", "0 of 2");
  check_failed(acted(start, {"step:1,exit:3", "exit:3"}), 2, "that ends the job (--on start=fail)",
               "1 of 2");
  const Finished free = acted({"--max-restarts", "0", "--on", "sigkill=free"},
                              {"step:1,kill:9", "step:2,kill:9", "exit:0"});
  INFO(free.err);
  CHECK(free.exit_code == 0);
  CHECK(contains(free.err, "restarts used: 0 of 0"));
}

TEST_CASE("A rule --on oom tells a worker that ran out of memory from one that was killed") {
  const auto group = ControlGroup::memory(256 << 20);
  NEEDS_GROUP(group);
  const Finished job =
      run({.argv = {"sh", "-c", "echo $$ > \"$0\"; exec \"$@\"", group.members_file(),
                    find_program("ddprun"), "--standalone", "--max-restarts", "2", "--on",
                    "oom=fail", "--no-python", "python3", "-c",
                    "import os, signal\n"
                    "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
                    "    os.kill(os.getpid(), signal.SIGKILL)\n"
                    "open('/proc/self/oom_score_adj', 'w').write('900')\n"
                    "data = []\n"
                    "while True: data.append(bytearray(8 << 20))\n"}});
  check_failed(job, 2, "that ends the job (--on oom=fail)", "1 of 2");
}

TEST_CASE("A rule --on node-lost=fail ends the job with the node") {
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--max-restarts", "2", "--on", "node-lost=fail"},
                   .program = {"sh", "-c", "echo here; exec sleep 1000"}});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "here"));
  ::kill(cluster.node(1).pid(), SIGKILL);
  CHECK(cluster.node(0).exit_code() == 1);
  INFO(cluster.report());
  CHECK(contains(cluster.node(0).err(), "that ends the job (--on node-lost=fail)"));
}

TEST_CASE("Nodes that do not come back in time after a loss end the job, which says so") {
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--join-timeout", "2"},
                   .program = {"sh", "-c", "echo here; exec sleep 1000"}});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "here"));
  ::kill(cluster.node(1).pid(), SIGKILL);
  CHECK(cluster.node(0).exit_code() == 1);
  const std::string err = cluster.node(0).err();
  INFO(err);
  CHECK(contains(err, "attempt 0 ended: "));
  CHECK_THAT(line_after(err, "ddprun: "),
             Catch::StartsWith("job could not go on after 1 attempt: after ") &&
                 Catch::Contains(" s only 1 of 2 nodes was here") &&
                 Catch::Contains("the last node lost was "));
  CHECK(cluster.left_behind().empty());
}

TEST_CASE("A command with other --nnodes does not end a job that misses a node") {
  const TempDir dir;
  const auto program = std::vector<std::string>{
      "sh", "-c", "echo here; until [ -e " + dir.file("go") + " ]; do sleep 0.05; done"};
  Cluster cluster({.nodes = 3, .workers_per_node = 1, .program = program});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "here"));
  ::kill(cluster.node(2).pid(), SIGKILL);
  REQUIRE(cluster.node(0).wait_for_err("attempt 1 begins when 1 more node is here"));
  const auto start_node = [&](const std::string& nodes) {
    return start(
        {.endpoint = cluster.endpoint(), .options = {"--nnodes", nodes}, .program = program});
  };
  const auto stray = start_node("2");
  CHECK(stray->exit_code() == 1);
  CHECK(contains(stray->err(), "its --nnodes is '2', the job's is '3'"));
  std::ofstream(dir.file("go")).put('\n');
  const auto replacement = start_node("3");
  INFO(cluster.report());
  CHECK(replacement->exit_code() == 0);
  CHECK(cluster.node(0).exit_code() == 0);
  CHECK(cluster.node(1).exit_code() == 0);
}

}  // namespace ddprun::test
