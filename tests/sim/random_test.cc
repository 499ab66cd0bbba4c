// Random stories. DDPRUN_SIM_SEEDS sets how many are told, DDPRUN_SIM_SEED picks a single one.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>

#include "tests/sim/simulator.h"

using namespace ddprun;
using namespace ddprun::sim;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

struct Tally {
  std::size_t events = 0;
  std::size_t contests = 0;
};

/// Fails the test with the seed and its trace.
std::optional<JobSummary> tell(const SimOptions& options, Tally& tally) {
  Simulator simulator(options);
  simulator.run();
  tally.events += simulator.events();
  tally.contests += simulator.contests();
  if (!simulator.violation().empty()) {
    Simulator again(options, true);
    again.run();
    FAIL("DDPRUN_SIM_SEED=" << options.seed << ": " << again.violation() << "\n" << again.trace());
  }
  return simulator.summary();
}

}  // namespace

TEST_CASE("Whatever happens to small jobs, the invariants hold and the job ends with a reason") {
  const std::uint64_t one = from_environment("DDPRUN_SIM_SEED", 0);
  const std::uint64_t count = from_environment("DDPRUN_SIM_SEEDS", 3000);
  std::map<Verdict, int> verdicts;
  Tally tally;
  std::size_t incidents = 0;
  for (std::uint64_t seed = one; seed < (one != 0 ? one + 1 : count); ++seed) {
    if (const auto summary = tell(draw(seed), tally)) {
      ++verdicts[summary->verdict];
      incidents += summary->incidents.size();
    }
  }
  if (one == 0) {
    // A simulator that never gets anywhere would hold all invariants.
    CHECK(verdicts[Verdict::succeeded] > static_cast<int>(count / 4));
    CHECK(verdicts[Verdict::failed] > 0);
    CHECK(verdicts[Verdict::stopped] > 0);
    CHECK(verdicts[Verdict::impossible] > 0);
    CHECK(incidents > count / 2);
    CHECK(tally.contests > count / 100);
  }
  WARN(tally.events << " events, " << tally.contests << " contests for a rank, " << incidents
                    << " incidents; succeeded " << verdicts[Verdict::succeeded] << ", failed "
                    << verdicts[Verdict::failed] << ", stopped " << verdicts[Verdict::stopped]
                    << ", impossible " << verdicts[Verdict::impossible]);
}

TEST_CASE("A large job goes through faults like a small one") {
  SimOptions options;
  options.seed = 7;
  options.min_nodes = 1500;
  options.max_nodes = 2000;
  options.agents = 2000;
  options.max_restarts = 1000;
  options.workers_max = 8;
  options.worker_failures = 1e-5;
  options.deaths = 1e-5;
  options.cuts = 1e-5;
  options.vanishings = 1e-5;
  options.signals = 0;
  Tally tally;
  const auto summary = tell(options, tally);
  REQUIRE(summary);
  CHECK(summary->verdict == Verdict::succeeded);
  CHECK(summary->incidents.size() > 0);
}
