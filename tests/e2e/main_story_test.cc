// What ddprun is for: two nodes train, one worker is killed, the job goes on from its snapshot.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"

namespace ddprun::test {
namespace {

void live_through_the_loss_of_a_worker(bool namespaces) {
  const TempDir dir;
  Cluster cluster({.options = {"--max-restarts", "3"},
                   .program = {"train", "linear", "200", "20", "--batch-size", "128",
                               "--snapshot-path", dir.file("snapshot")},
                   .namespaces = namespaces});
  cluster.start_all();
  if (!cluster.wait_for("napshot saved")) {
    FAIL("no snapshot was saved\n" << cluster.report());
  }
  const pid_t victim = cluster.worker(3);
  const pid_t other = cluster.worker(0);
  REQUIRE(victim != 0);
  ::kill(victim, SIGKILL);
  // All workers are replaced, not only the one that was killed.
  CHECK(cluster.new_worker(0, other) != 0);
  const std::vector<int> codes = cluster.exit_codes();
  INFO(cluster.report());
  CHECK(codes == std::vector<int>{0, 0});
  CHECK(cluster.said("Resuming training from snapshot"));
  CHECK(wait_until([&] { return cluster.left_behind().empty(); }, std::chrono::seconds(1)));
}

TEST_CASE("two nodes lose a worker and finish from their last snapshot", "[e2e]") {
  live_through_the_loss_of_a_worker(false);
}

TEST_CASE("two nodes with addresses of their own lose a worker and finish from their last snapshot",
          "[e2e]") {
  if (const std::string reason = NetNamespaces::unavailable(); !reason.empty()) {
    WARN("skipped: " << reason);
    return;
  }
  live_through_the_loss_of_a_worker(true);
}

}  // namespace
}  // namespace ddprun::test
