// What ddprun is for: two nodes train, one worker is killed, and the job goes on from its snapshot.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

ClusterRequest linear_job(const TempDir& dir, int epochs, int max_restarts) {
  return {.options = {"--max-restarts", std::to_string(max_restarts)},
          .program = {"train", "linear", std::to_string(epochs), "4", "--snapshot-path",
                      dir.file("snapshot")},
          .environment = {{"OMP_NUM_THREADS", "1"}}};
}

}  // namespace

TEST_CASE("a job with a killed worker goes on from its snapshot to the very same weights") {
  const TempDir calm_dir;
  Cluster calm(linear_job(calm_dir, 150, 3));
  calm.start_all();
  REQUIRE(calm.exit_codes() == std::vector{0, 0});
  const std::string expected = weights_in(calm.out());
  REQUIRE(expected.size() == 16);

  // Each rank once or twice, each a little later in the run, and at each phase between two
  // snapshots, which are four epochs apart.
  for (int point = 0; point < 6; ++point) {
    const int rank = point % 4;
    const std::string seen = "Epoch " + std::to_string(point * 20 + 1 + point % 3) + " ";
    INFO("killed rank " << rank << " after '" << seen << "'");
    // A test that is late to see how far a job is may find it over: then it was not disturbed.
    bool disturbed = false;
    for (int tries = 0; tries < 5 && !disturbed; ++tries) {
      const TempDir dir;
      Cluster job(linear_job(dir, 150, 3));
      job.start_all();
      const pid_t other = job.worker((rank + 2) % 4);
      const pid_t victim = job.worker(rank);
      REQUIRE((other != 0 && victim != 0));
      REQUIRE(job.wait_for(seen));
      ::kill(victim, point % 3 == 2 ? SIGSEGV : SIGKILL);
      const auto codes = job.exit_codes();
      INFO(job.report());
      disturbed = job.said("attempt 0 ended: ");
      CHECK(codes == std::vector{0, 0});
      CHECK(weights_in(job.out()) == expected);
      if (disturbed) {
        CHECK((contains(job.out(), "Resuming training from snapshot") || point == 0));
        CHECK_FALSE(process_runs(other));  // all are replaced, not only the one that was killed
      }
      CHECK(wait_until([&] { return job.left_behind().empty(); }, std::chrono::seconds(1)));
    }
    CHECK(disturbed);
  }
}

TEST_CASE("a worker killed more often than --max-restarts ends the job with its cause everywhere") {
  const TempDir dir;
  Cluster job(linear_job(dir, 1'000'000, 1));
  job.start_all();
  for (const std::string attempt : {"0", "1"}) {
    pid_t victim = 0;
    REQUIRE(wait_until([&] {
      victim = job.worker(3, std::chrono::milliseconds(0));
      return victim != 0 && environment_of(victim, "TORCHELASTIC_RESTART_COUNT") == attempt;
    }));
    ::kill(victim, SIGKILL);
  }
  CHECK(job.exit_codes() == std::vector{1, 1});
  INFO(job.report());
  for (const int node : {0, 1}) {
    CHECK(contains(job.node(node).err(), "SIGKILL"));
    CHECK(contains(job.node(node).err(), "3 (local_rank: 1)"));
  }
}

}  // namespace ddprun::test
