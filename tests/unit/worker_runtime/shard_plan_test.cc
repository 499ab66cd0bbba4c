#include "worker_runtime/training/shard_plan.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

using ddp::plan_shards;

TEST_CASE("the largest parameters are dealt first, each to whom has least", "[worker_runtime]") {
  CHECK(plan_shards({10, 40, 30, 20}, 2) == std::vector{0, 0, 1, 1});
  CHECK(plan_shards({5, 5, 5}, 2) == std::vector{0, 1, 0});
  CHECK(plan_shards({7}, 3) == std::vector{0});
  CHECK(plan_shards({}, 3).empty());
  CHECK(plan_shards({1, 2, 3}, 1) == std::vector{0, 0, 0});
}

TEST_CASE("no rank owns more than the mean and one parameter", "[worker_runtime]") {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::size_t> sizes(random() % 60);
    for (auto& size : sizes) {
      size = random() % 5000;
    }
    const int ranks = 1 + static_cast<int>(random() % 9);
    const auto owners = plan_shards(sizes, ranks);
    REQUIRE(owners.size() == sizes.size());
    REQUIRE(owners == plan_shards(sizes, ranks));
    std::vector<std::size_t> loads(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      loads.at(static_cast<std::size_t>(owners[i])) += sizes[i];
    }
    const auto total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const auto largest = sizes.empty() ? 0 : *std::max_element(sizes.begin(), sizes.end());
    REQUIRE(*std::max_element(loads.begin(), loads.end()) <=
            total / static_cast<std::size_t>(ranks) + largest);
  }
}
