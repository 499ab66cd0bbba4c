// Who is to blame: the summary of a real training job names the cause, the ranks that failed
// because of it, and those that ddprun stopped, and says the same on every node.
#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

/// The lines of the failure with this rank, from the summary's block of it.
std::string block_of(const std::string& summary, const std::string& rank) {
  const auto at = summary.find("  rank      : " + rank + " ");
  const auto begin = summary.rfind("]:\n", at);
  const auto end = summary.find("error_file", at);
  return at == std::string::npos ? "" : summary.substr(begin, end - begin);
}

}  // namespace

TEST_CASE("every node tells the cause, its victims and those that ddprun stopped apart") {
  const TempDir dir;
  Cluster cluster({.options = {"--heartbeat-timeout", "60"},
                   .program = {"train", "linear", "10000000", "1000000", "--snapshot-path",
                               dir.file("snapshot")}});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.wait_for("Epoch 2 "));
  const std::vector<pid_t> ranks{cluster.worker(0), cluster.worker(1), cluster.worker(2),
                                 cluster.worker(3)};
  // Rank 2 sees nothing of it, so its agent has to stop it. The agent of ranks 0 and 1 sees nothing
  // either, before they have failed for the loss of rank 3 by themselves.
  REQUIRE(std::count(ranks.begin(), ranks.end(), 0) == 0);
  const pid_t agent = cluster.agent(0);
  REQUIRE(agent != 0);
  ::kill(agent, SIGSTOP);
  ::kill(ranks[2], SIGSTOP);
  ::kill(ranks[3], SIGKILL);
  const bool failed =
      wait_until([&] { return !process_runs(ranks[0]) && !process_runs(ranks[1]); });
  ::kill(agent, SIGCONT);
  const auto codes = cluster.exit_codes();
  INFO(cluster.report());
  REQUIRE(failed);
  CHECK(codes == std::vector{1, 1});
  for (const int node : {0, 1}) {
    const std::string err = cluster.node(node).err();
    const auto root = err.find("Root Cause (first observed failure):");
    REQUIRE(root != std::string::npos);
    CHECK_THAT(block_of(err.substr(root), "3"),
               Catch::Contains("exitcode  : -9 ") && Catch::Contains("blame     : cause\n"));
    for (const std::string victim : {"0", "1"}) {
      CHECK_THAT(
          block_of(err.substr(0, root), victim),
          Catch::Contains("exitcode  : 1 ") &&
              Catch::Contains("blame     : victim (failed after the cause, or for the loss of a "
                              "peer)\n"));
    }
    CHECK_THAT(err.substr(0, root), Catch::Contains("  Stopped by ddprun after that: rank 2 on "));
    CHECK(block_of(err, "2").empty());
  }
}

}  // namespace ddprun::test
