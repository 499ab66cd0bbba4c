#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/sim/campaign.h"
#include "tests/sim/cluster.h"
#include "tests/sim/shrink.h"

using namespace ddprun::sim;

TEST_CASE("A schedule is printed so that it can be read again") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto faults = draw_faults(draw(seed));
    std::string bad;
    const auto story = parse_story(story_text(seed, faults), bad);
    REQUIRE(story);
    CHECK(story->seed == seed);
    CHECK(story->schedule == faults);
  }
  std::string bad;
  CHECK_FALSE(parse_story("seed 1\n12.5 surprise n3\n", bad));
  CHECK(bad == "12.5 surprise n3");
}

TEST_CASE("The same seed and schedule are the same story") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const SimOptions options = draw(seed);
    std::string traces[2];
    for (std::string& trace : traces) {
      Cluster story(options, draw_faults(options), true);
      story.run();
      trace = story.trace();
    }
    CHECK(traces[0] == traces[1]);
  }
}

TEST_CASE("A schedule is minimised to the faults that are needed together") {
  std::vector<Fault> all;
  for (int i = 0; i < 100; ++i) {
    all.push_back({seconds(i), FaultKind::death, i});
  }
  const auto has = [](const std::vector<Fault>& some, int target) {
    return std::any_of(some.begin(), some.end(),
                       [target](const Fault& fault) { return fault.target == target; });
  };
  int runs = 0;
  const auto few = shrink(all, [&](const std::vector<Fault>& some) {
    ++runs;
    return has(some, 3) && has(some, 57) && has(some, 58);
  });
  REQUIRE(few.size() == 3);
  CHECK(has(few, 3));
  CHECK(has(few, 57));
  CHECK(has(few, 58));
  CHECK(runs < 300);
}

TEST_CASE("A story whose process aborts is a story that goes wrong") {
  SimOptions options;
  options.min_nodes = 0;  // no such job: a check fails
  CHECK_FALSE(verdict_of(options, {{Duration(0), FaultKind::start, 0}}).empty());
}

TEST_CASE(
    "Nodes that wait one after the other, and are no voters, are not taken for one that waits") {
  std::string bad;
  const auto story = parse_story(R"(seed 402290492
2.907848063 cut n1+3 for 14.871036965
2.985597195 start n4
4.245015123 start n0
4.600574996 start n2
7.543659687 deaf-cut n5 for 2.280098265
7.857093425 start n5
16.241240243 node-stop n4 for 10.420157370
26.049514629 silent-cut n5 for 2.605988425
27.567512915 vanishing n2
)",
                                 bad);
  REQUIRE(story);
  CHECK(verdict_of(draw(story->seed), story->schedule).empty());
}
