#include "tests/sim/ettr.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/sim/options.h"

using namespace ddprun::sim;

namespace {

/// The first step has what the other parts leave of the recovery.
EttrInput job(Duration mtbf, Duration interval, Duration cost, Duration recovery) {
  EttrInput input;
  input.mtbf = mtbf;
  input.interval = interval;
  input.snapshot_cost = cost;
  input.detect = milliseconds(100);
  input.stop = milliseconds(400);
  input.rendezvous = milliseconds(40);
  input.spawn = milliseconds(60);
  input.first_step = recovery - milliseconds(600);
  return input;
}

}  // namespace

TEST_CASE("The effective training time ratio agrees with the closed form within 0.2 points") {
  const auto minutes = [](double count) {
    return Duration(static_cast<std::int64_t>(count * 60e9));
  };
  const EttrInput jobs[] = {
      job(minutes(474), seconds(754), seconds(10), seconds(300)),
      job(minutes(108), seconds(360), seconds(10), seconds(300)),
      job(minutes(108), seconds(80), milliseconds(500), seconds(10)),
      job(minutes(13.8), seconds(29), milliseconds(500), seconds(10)),
  };
  for (const EttrInput& input : jobs) {
    const Ettr seen = simulate_ettr(input);
    const double expected = closed_form_ettr(input);
    INFO(seen.ratio << " +- " << seen.half_width << ", closed form " << expected);
    CHECK(seen.attempts > input.faults * 99 / 100);
    CHECK(seen.half_width < 0.001);
    CHECK(std::abs(seen.ratio - expected) < 0.002);
  }
}

TEST_CASE("The best interval between snapshots is better than a shorter and a longer one") {
  EttrInput input = job(std::chrono::hours(2), seconds(1), seconds(10), seconds(60));
  const Duration best = best_interval(input);
  const auto ratio_at = [&](Duration interval) {
    input.interval = interval;
    return closed_form_ettr(input);
  };
  CHECK(ratio_at(best) > ratio_at(best / 2));
  CHECK(ratio_at(best) > ratio_at(best * 2));
}
