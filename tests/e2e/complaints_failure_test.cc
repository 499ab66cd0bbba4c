// What users of other launchers complain about after a failure, produced for real. The tests bear
// the complaints' names; I-19 and I-20, which are about PyTorch, are in
// tests/interop/blame_test.py.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "tests/e2e/cluster.h"
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// One node of `nproc` workers that run a shell line.
ClusterRequest one_node(int nproc, const std::string& script, const std::string& file) {
  return {.nodes = 1,
          .workers_per_node = nproc,
          .options = {"--shutdown-timeout", "1"},
          .program = {"sh", "-c", script},
          .environment = {{"HELD_FILE", file}}};
}

}  // namespace

TEST_CASE(
    "I-13: processes that survive everything but SIGKILL are gone in time, with one warning") {
  // Rank 0 fails once the others are as stubborn as processes can be: deaf to SIGTERM, stopped, in
  // sessions of their own.
  const std::string stubborn =
      "trap '' TERM HUP INT; "
      "setsid sh -c 'trap \"\" TERM HUP INT; echo ready; while :; do sleep 1000; done' & "
      "sh -c 'echo ready; kill -STOP $$' & "
      "while :; do sleep 1000; done";
  const TempDir dir;
  const std::string fifo = dir.file("go");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  Cluster job(
      one_node(4, "if [ $RANK = 0 ]; then read _ < $HELD_FILE; exit 3; fi; " + stubborn, fifo));
  ChildProcess& node = job.start(0);
  REQUIRE(node.wait_for_out("ready", 6));
  const auto begin = std::chrono::steady_clock::now();
  {
    const Fd go(::open(fifo.c_str(), O_WRONLY));
    REQUIRE(go);
    REQUIRE(::write(go.get(), "\n", 1) == 1);
  }
  CHECK(node.exit_code(20s) == 1);
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(job.left_behind().empty());
  // The shutdown timeout, and the bound for what cannot be asked; some more on a busy machine.
  CHECK(took < 1s + 1s + 5s);
  CHECK(count_of(node.err(), "workers still run 1 s after they were asked to stop") == 1);
}

TEST_CASE("I-14: after a crash no data worker holds on to what the job had open") {
  const TempDir dir;
  const std::string device = dir.file("device");
  std::ofstream(device) << "stands for /dev/nvidia0";
  // Twenty data workers in sessions of their own, each with the device open; then the worker dies.
  Cluster job(one_node(2,
                       "exec 9<$HELD_FILE; i=0; while [ $i -lt 20 ]; do "
                       "setsid sh -c 'trap \"\" TERM HUP; echo ready; sleep 1000; sleep 1' & "
                       "i=$((i+1)); done; "
                       "sleep 1000",
                       device));
  ChildProcess& node = job.start(0);
  REQUIRE(node.wait_for_out("ready", 40));
  const auto holders = [&] {
    std::size_t holding = 0;
    for (const pid_t pid : job.left_behind()) {
      for (const std::string& fd : descriptors_of(pid)) {
        holding += contains(fd, device) ? 1 : 0;
      }
    }
    return holding;
  };
  CHECK(holders() >= 40);
  const pid_t worker = job.worker(0);
  REQUIRE(worker != 0);
  ::kill(worker, SIGKILL);
  CHECK(node.exit_code(20s) == 1);
  CHECK(holders() == 0);
  CHECK(job.left_behind().empty());
}

TEST_CASE("I-15: what a dead worker's grandchild held is free before the next attempt begins") {
  const TempDir dir;
  const std::string lock = dir.file("lock");  // stands for a device's memory
  // In a session of its own and deaf, it holds the lock, and so does its child; five times over.
  const std::string script =
      "flock -n $HELD_FILE true || { echo still held; exit 4; }; "
      "setsid sh -c 'trap \"\" TERM HUP INT; exec 9>$HELD_FILE; flock 9; : >$HELD_FILE.taken; "
      "sleep 1000; sleep 1' & "
      "until [ -e $HELD_FILE.taken ]; do sleep 0.01; done; rm $HELD_FILE.taken; "
      "if [ $TORCHELASTIC_RESTART_COUNT = 5 ]; then echo free each time; exit 0; fi; exit 3";
  ClusterRequest request = one_node(1, script, lock);
  request.options.insert(request.options.end(), {"--max-restarts", "5"});
  Cluster job(request);
  job.start_all();
  CHECK(job.exit_codes() == std::vector{0});
  INFO(job.report());
  CHECK(job.said("free each time"));
  CHECK_FALSE(job.said("still held"));
}

}  // namespace ddprun::test
