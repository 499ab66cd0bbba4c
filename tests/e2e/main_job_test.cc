// The main job through the built programs: two agents, two workers each, one killed in the middle.
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <regex>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

using namespace ddprun::test;

namespace {

/// Two agents on this machine that run `train linear` over one endpoint.
struct Job {
  explicit Job(const TempDir& dir, int epochs, int save_every, int max_restarts = 3)
      : endpoint("127.0.0.1:" + std::to_string(free_port())) {
    for (auto& node : nodes) {
      node = std::make_unique<ChildProcess>(ChildRequest{
          .argv = {"ddprun", "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-endpoint", endpoint,
                   "--max-restarts", std::to_string(max_restarts), "train", "linear",
                   std::to_string(epochs), std::to_string(save_every), "--snapshot-path",
                   dir.file("snapshot")},
          .environment = {{"OMP_NUM_THREADS", "1"}},
          .directory = dir.path().string()});
    }
  }
  /// The agent below which this rank runs, and its pid; 0 when it is not there (yet).
  pid_t worker(int rank) const {
    for (const auto& node : nodes) {
      if (const pid_t pid = worker_of(node->pid(), rank); pid != 0) {
        return pid;
      }
    }
    return 0;
  }
  std::string out() const { return nodes[0]->out() + nodes[1]->out(); }
  std::string report() const { return nodes[0]->report() + nodes[1]->report(); }

  std::string endpoint;
  std::unique_ptr<ChildProcess> nodes[2];
};

/// The fingerprint of the final weights that rank 0 prints.
std::string weights(const std::string& out) {
  std::smatch match;
  return std::regex_search(out, match, std::regex("weights ([0-9a-f]{16})")) ? match[1].str() : "";
}

}  // namespace

TEST_CASE("two nodes with two workers each train to the end") {
  const TempDir dir;
  Job job(dir, 6, 2);
  const int first = job.nodes[0]->exit_code();
  const int second = job.nodes[1]->exit_code();
  INFO(job.report());
  CHECK(first == 0);
  CHECK(second == 0);
  CHECK(weights(job.out()).size() == 16);
  CHECK(job.nodes[0]->err().find("Traceback") == std::string::npos);
}

TEST_CASE("a job with a killed worker goes on from its snapshot to the very same weights") {
  const TempDir calm_dir;
  Job calm(calm_dir, 40, 1);
  REQUIRE(calm.nodes[0]->exit_code() == 0);
  REQUIRE(calm.nodes[1]->exit_code() == 0);
  const std::string expected = weights(calm.out());
  REQUIRE(expected.size() == 16);

  // Each rank once, each a little later in the run: early, between snapshots, late.
  for (int point = 0; point < 12; ++point) {
    const int rank = point % 4;
    const TempDir dir;
    Job job(dir, 40, 1);
    const std::string seen = "Epoch " + std::to_string(point * 3) + " ";
    REQUIRE(wait_until([&] { return job.out().find(seen) != std::string::npos; }));
    const pid_t victim = job.worker(rank);
    if (victim != 0) {  // the job may have ended already at a late point: then it was not disturbed
      ::kill(victim, SIGKILL);
    }
    const int first = job.nodes[0]->exit_code();
    const int second = job.nodes[1]->exit_code();
    INFO("killed rank " << rank << " after '" << seen << "'");
    INFO(job.report());
    CHECK(first == 0);
    CHECK(second == 0);
    CHECK(weights(job.out()) == expected);
    if (victim != 0 && point > 0 && point < 10) {
      CHECK(job.out().find("Resuming training from snapshot") != std::string::npos);
    }
  }
}

TEST_CASE("a worker killed more often than --max-restarts ends the job with its cause everywhere") {
  const TempDir dir;
  Job job(dir, 1000000, 1000, 1);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const std::string text = std::to_string(attempt);
    REQUIRE(wait_until([&] {
      const pid_t pid = job.worker(3);
      return pid != 0 && environment_of(pid, "TORCHELASTIC_RESTART_COUNT") == text;
    }));
    ::kill(job.worker(3), SIGKILL);
  }
  for (const auto& node : job.nodes) {
    const int code = node->exit_code();
    INFO(job.report());
    CHECK(code == 1);
    CHECK(node->err().find("SIGKILL") != std::string::npos);
    CHECK(node->err().find("3 (local_rank: 1)") != std::string::npos);
  }
}
