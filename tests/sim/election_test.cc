// Elections under random cuts and deaths. DDPRUN_SIM_SEEDS sets how many, DDPRUN_SIM_SEED picks
// one.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/sim/election_model.h"

using namespace ddprun::sim;

namespace {

std::uint64_t from_environment(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

}  // namespace

TEST_CASE(
    "However the network is cut and machines die, one coordinator's attempt lives at a time") {
  const std::uint64_t one = from_environment("DDPRUN_SIM_SEED", 0);
  const std::uint64_t count = from_environment("DDPRUN_SIM_SEEDS", 500);
  int takeovers = 0;
  std::uint64_t alive = 0;
  for (std::uint64_t seed = one; seed < (one != 0 ? one + 1 : count); ++seed) {
    ElectionOptions options;
    options.seed = seed;
    options.machines = 3 + static_cast<int>(seed % 5);
    ElectionModel model(options);
    model.run();
    if (!model.violation().empty() || one != 0 || !(model.alive_at_end() || model.quorum_died())) {
      WARN(model.trace());
    }
    INFO("DDPRUN_SIM_SEED=" << seed);
    REQUIRE(model.violation().empty());
    REQUIRE((model.alive_at_end() || model.quorum_died()));
    takeovers += model.takeovers();
    alive += model.alive_at_end() ? 1 : 0;
  }
  WARN(takeovers << " takeovers; alive at the end in " << alive << " of " << count);
  if (one == 0) {
    CHECK(takeovers > static_cast<int>(count / 4));
    CHECK(alive > count / 4);
  }
}
