// The plainest loss that a job has to outlive: its coordinator's machine is gone, and every other
// one is there, though busy: processes stand still for a while, messages take their time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/sim/cluster.h"
#include "tests/sim/random.h"

using namespace ddprun;
using namespace ddprun::sim;

namespace {

SimOptions busy_job(std::uint64_t seed, int agents) {
  SimOptions options;
  options.seed = seed;
  options.agents = agents;
  options.max_nodes = agents;
  options.min_nodes = 1;
  options.join_within = milliseconds(100);
  options.training = seconds(0);  // until somebody ends it
  options.delay_max = milliseconds(50);
  options.heartbeat_timeout = seconds(1);
  options.last_call = seconds(30);  // the first world has all
  options.victims = 1;
  return options;
}

std::vector<Fault> schedule(std::uint64_t seed, int agents) {
  Random random(seed, 3);
  std::vector<Fault> faults;
  for (int i = 0; i < agents; ++i) {
    faults.push_back({random.up_to(milliseconds(100)), FaultKind::start, i});
  }
  const Duration loss = seconds(3) + random.up_to(seconds(1));
  faults.push_back({loss, FaultKind::coordinator_vanishing});
  for (int i = random.number_below(8); i > 0; --i) {
    faults.push_back({loss + random.up_to(seconds(3)), FaultKind::node_stop,
                      1 + random.number_below(agents - 1), 1, random.up_to(milliseconds(250))});
  }
  faults.push_back({loss + seconds(15), FaultKind::signal, 1});
  std::stable_sort(faults.begin(), faults.end(),
                   [](const Fault& a, const Fault& b) { return a.at < b.at; });
  return faults;
}

}  // namespace

TEST_CASE("Four busy nodes of five always go on without the machine of their coordinator") {
  for (const int agents : {5, 3}) {
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      Cluster story(busy_job(seed, agents), schedule(seed, agents), true);
      story.run();
      INFO(agents << " nodes, seed " << seed << ": " << story.violation() << "\n" << story.trace());
      REQUIRE(story.violation().empty());
      REQUIRE(story.takeovers() > 0);
      REQUIRE(story.observer().attempts() > 1);
      REQUIRE(story.observer().summary());
      REQUIRE(story.observer().summary()->verdict == Verdict::stopped);
    }
  }
}
