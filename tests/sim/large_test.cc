#include <catch2/catch.hpp>

#include "tests/sim/cluster.h"

using namespace ddprun;
using namespace ddprun::sim;

namespace {

SimOptions large(int agents, bool failover) {
  SimOptions options;
  options.seed = 7;
  options.agents = agents;
  options.max_nodes = agents;
  options.min_nodes = agents / 2;
  options.max_restarts = 1000;
  options.failover = failover;
  options.join_within = seconds(2);
  options.faults_until = seconds(30);
  options.rates.worker_failures = 0.5;
  options.rates.deaths = 0.5;
  options.rates.coordinator_deaths = 0;
  options.rates.signals = 0;
  return options;
}

}  // namespace

TEST_CASE("A job of a thousand nodes goes through faults like a small one") {
  for (const bool failover : {false, true}) {
    const SimOptions options = large(1000, failover);
    std::vector<Fault> faults = draw_faults(options);
    if (failover) {
      faults.push_back({seconds(12), FaultKind::coordinator_vanishing});
    }
    Cluster story(options, faults);
    story.run();
    INFO(story.violation());
    CHECK(story.violation().empty());
    REQUIRE(story.observer().summary());
    CHECK(story.observer().summary()->verdict == Verdict::succeeded);
    CHECK(story.observer().attempts() > 3);
    CHECK(story.takeovers() == (failover ? 1 : 0));
  }
}
