// A process that stands still for less than half of the heartbeat timeout is no loss: no lease ends
// and no worker is stopped, whichever node it is, and whatever the others do.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/sim/cluster.h"
#include "tests/sim/random.h"

using namespace ddprun;
using namespace ddprun::sim;

namespace {

SimOptions quiet_job(std::uint64_t seed, int agents) {
  SimOptions options;
  options.seed = seed;
  options.agents = options.min_nodes = options.max_nodes = agents;
  options.join_within = milliseconds(100);
  options.training = seconds(0);  // until somebody ends it
  options.delay_max = milliseconds(5);
  options.heartbeat_timeout = seconds(3);
  options.victims = 0;
  options.fatal_ends = 0;
  return options;
}

std::vector<Fault> one_stall(std::uint64_t seed, int agents, Duration lasts) {
  Random random(seed, 3);
  std::vector<Fault> faults;
  for (int i = 0; i < agents; ++i) {
    faults.push_back({random.up_to(milliseconds(100)), FaultKind::start, i});
  }
  const int target = seed % 2 == 0 ? 0 : random.number_below(agents);  // often the coordinator's
  faults.push_back(
      {seconds(3) + random.up_to(seconds(3)), FaultKind::agent_stop, target, 1, lasts});
  faults.push_back({seconds(12), FaultKind::signal, 0});
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return faults;
}

int lost(int agents, Duration lasts, int stories) {
  int count = 0;
  for (int seed = 0; seed < stories; ++seed) {
    const SimOptions options = quiet_job(static_cast<std::uint64_t>(seed), agents);
    Cluster story(options, one_stall(options.seed, agents, lasts), true);
    story.run();
    INFO(agents << " nodes, seed " << seed << ": " << story.violation() << "\n" << story.trace());
    REQUIRE(story.violation().empty());
    REQUIRE(story.observer().attempts() >= 1);
    count += story.observer().attempts() > 1 || story.takeovers() > 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

TEST_CASE("A stall shorter than 0.49 heartbeat timeouts loses nobody") {
  for (const int agents : {2, 3, 4, 5, 7, 20}) {
    CAPTURE(agents);
    CHECK(lost(agents, milliseconds(1470), 300) == 0);
  }
}

TEST_CASE("A stall longer than a heartbeat timeout loses a node of three") {
  CHECK(lost(3, milliseconds(3300), 100) == 100);
}
