// `train gpt2` under ddprun: two nodes train on a text, workers are killed, and the job ends with
// the very same weights.
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/event_lines.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

/// 6,000 words of a small language, the same in every run.
std::string write_text(const TempDir& dir) {
  static const std::vector<std::string> kWords = {"the ", "cat ",  "sat ", "on ",
                                                  "a ",   "mat. ", "and ", "ran\n"};
  std::string path = dir.file("text.txt");
  std::ofstream file(path);
  std::uint32_t state = 1;
  for (int i = 0; i < 6000; ++i) {
    state = state * 1664525U + 1013904223U;
    file << kWords[state >> 29U];
  }
  return path;
}

ClusterRequest gpt2_job(const TempDir& dir, const std::string& text) {
  // Snapshots fall into the middle of an epoch, and a step has two micro-steps.
  return {.options = {"--max-restarts", "3"},
          .program = {"train", "gpt2", "--data", text, "--save-dir", dir.file("out"),
                      "--seq-length", "32", "--batch-size", "2", "--accumulation", "2",
                      "--max-steps", "60", "--ckpt-freq", "7", "--log-freq", "1"},
          .environment = {{"OMP_NUM_THREADS", "1"}}};
}

}  // namespace

TEST_CASE("a GPT-2 whose workers are killed ends with the very same weights") {
  const TempDir dir;
  const std::string text = write_text(dir);
  Cluster calm(gpt2_job(dir, text));
  calm.start_all();
  INFO(calm.report());
  REQUIRE(calm.exit_codes() == std::vector{0, 0});
  const std::string expected = weights_in(calm.out());
  REQUIRE(expected.size() == 16);
  CHECK(contains(calm.out(), "Validation loss: "));

  for (const int rank : {0, 3}) {
    const TempDir other;
    Cluster job(gpt2_job(other, text));
    job.start_all();
    const pid_t victim = job.worker(rank);
    REQUIRE(victim != 0);
    REQUIRE(job.wait_for(rank == 0 ? "step 10/60" : "step 24/60"));
    CHECK(::kill(victim, SIGKILL) == 0);
    CHECK(job.exit_codes() == std::vector{0, 0});
    INFO(job.report());
    CHECK(contains(job.out(), "Resuming training from snapshot"));
    CHECK(weights_in(job.out()) == expected);
  }
}

TEST_CASE("each snapshot within an epoch is progress, and only what came after it is done again") {
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  ClusterRequest request = gpt2_job(dir, write_text(dir));
  request.options = {"--max-restarts", "3", "--no-progress-limit", "1", "--event-log", log};
  Cluster job(request);
  job.start_all();
  // The second and the third attempt make fewer steps than the first; all stay in the first epoch.
  for (const char* step : {"step 21 |", "step 28 |", "step 35 |"}) {
    REQUIRE(job.wait_for(std::string(step) + " Training snapshot saved"));
    CHECK(::kill(job.worker(3), SIGKILL) == 0);
  }
  CHECK(job.exit_codes() == std::vector{0, 0});
  INFO(job.report());
  CHECK(contains(job.report(), "resumed from step "));
  const auto events = events_in(log);
  CHECK(last_of(events, "ledger")["steps"] == 60);
  const auto saved = last_of(events, "snapshot_saved");
  CHECK(saved["step"] == 60);
  CHECK(saved["epoch"].is_null());
  for (const auto& closed : all_of(events, "incident_closed")) {
    CHECK(closed["resumed_step"].get<int>() >= 21);
    CHECK(closed["resumed_epoch"].is_null());
    CHECK(closed["replayed_steps"].get<int>() < 21);
  }
}

}  // namespace ddprun::test
