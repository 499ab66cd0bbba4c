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
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

using ddprun::Fd;
using namespace ddprun::test;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

std::size_t count(const std::string& text, const std::string& what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++found;
  }
  return found;
}

/// One node of `nproc` workers that run a shell line; all that descends from it can be found.
struct Job {
  Job(const std::string& name, int nproc, const std::string& script, const std::string& file)
      : mark(name + std::to_string(::getpid())) {
    std::vector<std::string> argv{
        "ddprun", "--standalone", "--nproc-per-node", std::to_string(nproc), "--shutdown-timeout",
        "1"};
    argv.insert(argv.end(), {"sh", "-c", script});
    node.emplace(ChildRequest{.argv = argv,
                              .environment = {{"DDPRUN_TEST_MARK", mark}, {"HELD_FILE", file}}});
  }
  [[nodiscard]] std::vector<pid_t> processes() const {
    return processes_with("DDPRUN_TEST_MARK", mark);
  }
  std::string mark;
  std::optional<ChildProcess> node;
};

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
  Job job("I13", 4, "if [ $RANK = 0 ]; then read _ < $HELD_FILE; exit 3; fi; " + stubborn, fifo);
  REQUIRE(job.node->wait_for_out("ready", 6));
  const auto begin = std::chrono::steady_clock::now();
  {
    const Fd go(::open(fifo.c_str(), O_WRONLY));
    REQUIRE(go);
    REQUIRE(::write(go.get(), "\n", 1) == 1);
  }
  CHECK(job.node->exit_code(20s) == 1);
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(job.processes().empty());
  // The shutdown timeout, and the bound for what cannot be asked; some more on a busy machine.
  CHECK(took < 1s + 1s + 5s);
  CHECK(count(job.node->err(), "workers still run 1 s after they were asked to stop") == 1);
}

TEST_CASE("I-14: after a crash no data worker holds on to what the job had open") {
  const TempDir dir;
  const std::string device = dir.file("device");
  std::ofstream(device) << "stands for /dev/nvidia0";
  // Twenty data workers in sessions of their own, each with the device open; then the worker dies.
  Job job("I14", 2,
          "exec 9<$HELD_FILE; i=0; while [ $i -lt 20 ]; do "
          "setsid sh -c 'trap \"\" TERM HUP; echo ready; sleep 1000; sleep 1' & "
          "i=$((i+1)); done; "
          "sleep 1000",
          device);
  REQUIRE(job.node->wait_for_out("ready", 40));
  const auto holders = [&] {
    std::size_t holding = 0;
    for (const pid_t pid : job.processes()) {
      for (const std::string& fd : descriptors_of(pid)) {
        holding += fd.find(device) != std::string::npos ? 1 : 0;
      }
    }
    return holding;
  };
  CHECK(holders() >= 40);
  const pid_t worker = worker_of(job.node->pid(), 0);
  REQUIRE(worker != 0);
  ::kill(worker, SIGKILL);
  CHECK(job.node->exit_code(20s) == 1);
  CHECK(holders() == 0);
  CHECK(job.processes().empty());
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
  ChildProcess node(ChildRequest{.argv = {"ddprun", "--standalone", "--max-restarts", "5",
                                          "--shutdown-timeout", "1", "sh", "-c", script},
                                 .environment = {{"HELD_FILE", lock}}});
  CHECK(node.exit_code(20s) == 0);
  INFO(node.report());
  CHECK(node.out().find("free each time") != std::string::npos);
  CHECK(node.out().find("still held") == std::string::npos);
}
