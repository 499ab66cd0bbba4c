// Jobs that stand still: found, explained, and brought to go on. The tests bear the names of the
// complaints that they answer.
#include <unistd.h>

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
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

using namespace ddprun::test;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

using Clock = std::chrono::steady_clock;

std::vector<std::string> stands_still(const std::string& mode, int rank) {
  return {HANG_WORKER, "20", mode, std::to_string(rank), "17"};
}

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

/// A version 1 freezer, whose frozen processes not even SIGKILL ends: they wait in the kernel
/// (state D) as for a dead disk.
class Freezer {
 public:
  Freezer() : dir_("/sys/fs/cgroup/freezer/ddprun-test-" + std::to_string(::getpid())) {
    std::error_code error;
    usable_ = std::filesystem::create_directory(dir_, error) && !error &&
              std::filesystem::exists(dir_ / "freezer.state");
  }
  ~Freezer() {
    if (usable_) {
      write("freezer.state", "THAWED");
      // A group goes away once the last process in it has.
      (void)wait_until([&] { return ::rmdir(dir_.c_str()) == 0; }, 5s);
    }
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;

  [[nodiscard]] bool usable() const { return usable_; }
  void freeze(pid_t pid) {
    write("cgroup.procs", std::to_string(pid));
    write("freezer.state", "FROZEN");
  }

 private:
  void write(const char* file, const std::string& text) { std::ofstream(dir_ / file) << text; }
  std::filesystem::path dir_;
  bool usable_ = false;
};

/// Node 0 hosts the endpoint, and so has the first rank.
void start_in_order(Cluster& cluster) {
  cluster.start(0);
  const std::string& endpoint = cluster.endpoint();
  REQUIRE(listens("127.0.0.1", std::stoi(endpoint.substr(endpoint.find(':') + 1))));
  cluster.start(1);
}

}  // namespace

TEST_CASE("I-12: of four ranks on two nodes the one that does not come is named, and where it is") {
  const TempDir logs;
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 2,
                   .options = {"--hang-timeout", "2", "--max-restarts", "1", "--shutdown-timeout",
                               "1", "--log-dir", logs.path().string()},
                   .program = stands_still("deaf", 3)});
  start_in_order(cluster);
  REQUIRE(cluster.wait_for("stepped 3 17"));
  const auto still_since = Clock::now();
  REQUIRE(cluster.wait_for("made no progress for 2"));
  CHECK(Clock::now() - still_since < 3s);  // the timeout and a second
  CHECK(cluster.exit_codes() == std::vector{0, 0});
  INFO(cluster.report());
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
  Freezer freezer;
  if (!freezer.usable()) {
    WARN(
        "skipped: this machine lets nobody make a frozen group (no cgroup v1 freezer, or no root)");
    return;
  }
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--hang-timeout", "1", "--max-restarts", "1",
                               "--shutdown-timeout", "1"},
                   .program = stands_still("sleep", 1)});
  start_in_order(cluster);
  REQUIRE(cluster.wait_for("stepped 1 17"));
  freezer.freeze(cluster.worker(1));
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

TEST_CASE("Without the option nothing is watched") {
  const Finished job =
      run({.argv = {"ddprun", "--standalone", "sh", "-c", "sleep 1.5; echo $PYTHONFAULTHANDLER"},
           .environment = {{"PYTHONFAULTHANDLER", ""}}});
  CHECK(job.exit_code == 0);
  CHECK(job.out == "\n");
}
