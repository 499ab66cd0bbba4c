// A run that left in the middle of an epoch goes on in a world of another size: each sample of the
// epoch counts once.
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

// The weights stay what they are at this rate, so the loss of an epoch, each sample measured before
// its step, is a sum over samples alone: of the 2,048 none may be missing or come twice.
constexpr char kRate[] = "1e-38";

ChildRequest job(const TempDir& dir, int workers, const std::string& epochs,
                 const std::string& path) {
  return {.argv = {"ddprun", "--standalone", "--nproc-per-node", std::to_string(workers), "train",
                   "linear", epochs, "1000000", "--batch-size", "1", "--lr", kRate,
                   "--snapshot-path", path},
          .environment = {{"OMP_NUM_THREADS", "1"}},
          .directory = dir.path().string()};
}

/// What stands between the two; empty when they do not.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const auto begin = text.find(before);
  const auto end = begin == std::string::npos ? begin : text.find(after, begin + before.size());
  return end == std::string::npos ? std::string()
                                  : text.substr(begin + before.size(), end - begin - before.size());
}

}  // namespace

TEST_CASE("an epoch that two ranks began and three, then one, ended has each sample once") {
  const TempDir dir;
  const std::string loss = between(run(job(dir, 1, "1", "calm")).out, "epochs, loss ", ",");
  REQUIRE(loss.size() > 8);

  std::string epoch = "0";
  std::string done = "0";
  for (const int workers : {2, 3}) {
    // At whatever step the order comes; at an epoch's very end there would be nothing to show.
    for (int turn = 0; turn < 5 && (done == "0" || turn == 0); ++turn) {
      ChildProcess first(job(dir, workers, "1000000", "s"));
      REQUIRE(first.wait_for_out("] Epoch " + epoch + " |", workers));
      first.signal(SIGUSR1);
      CHECK(first.exit_code() == 75);
      INFO(first.report());
      const std::string line = between(first.out(), " samples done | Training snapshot", "\n");
      REQUIRE(!line.empty());
      const auto end = first.out().find(" samples done | Training snapshot");
      const auto begin = first.out().rfind("Epoch ", end);
      epoch = between(first.out().substr(begin), "Epoch ", " |");
      done = between(first.out().substr(begin), "| ", " samples done");
    }
    REQUIRE(done != "0");
    const auto samples = std::stoi(done);
    CHECK((samples > 0 && samples < 2048));
  }
  const Finished last = run(job(dir, 1, std::to_string(std::stoi(epoch) + 1), "s"));
  INFO(last.out << last.err);
  CHECK(last.out.find(done + " samples of it are done") != std::string::npos);
  CHECK(between(last.out, "epochs, loss ", ",") == loss);
}

}  // namespace ddprun::test
