#include "ddp/distributed_sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "ddp/error.h"

using ddp::DistributedSampler;
using ddp::SamplerOptions;
using Samples = std::vector<std::size_t>;

namespace {

/// What a job of this world trains on in `steps` steps, in the order of the job.
Samples train(std::size_t samples, int world, std::size_t batch, std::size_t steps,
              std::uint64_t epoch, std::size_t& done, SamplerOptions options = {}) {
  std::vector<DistributedSampler> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back(samples, rank, world, options);
    ranks.back().start_epoch(epoch, done);
  }
  Samples result;
  for (std::size_t step = 0; step < steps; ++step) {
    for (std::size_t i = 0; i < batch; ++i) {
      for (const DistributedSampler& rank : ranks) {
        const auto mine = rank.batch(step, batch);
        if (i < mine.size()) {
          result.push_back(mine[i]);
        }
      }
    }
  }
  done = ranks[0].samples_done(steps, batch);
  return result;
}

Samples numbers(std::size_t count) {
  Samples result(count);
  for (std::size_t i = 0; i < count; ++i) {
    result[i] = i;
  }
  return result;
}

}  // namespace

TEST_CASE("the order of an epoch is fixed for all time", "[worker_runtime]") {
  // Golden values: a snapshot taken today must resume in the same order in ten years.
  CHECK(ddp::epoch_order(10, 0, 0) == Samples{8, 3, 9, 7, 0, 4, 5, 1, 6, 2});
  CHECK(ddp::epoch_order(10, 42, 7) == Samples{4, 8, 9, 3, 6, 5, 7, 2, 1, 0});
}

TEST_CASE("an order is a permutation that changes with seed and epoch", "[worker_runtime]") {
  std::set<Samples> orders;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
      Samples order = ddp::epoch_order(100, seed, epoch);
      orders.insert(order);
      std::sort(order.begin(), order.end());
      REQUIRE(order == numbers(100));
    }
  }
  CHECK(orders.size() == 100);
}

TEST_CASE("all orders of few samples are equally likely", "[worker_runtime]") {
  std::map<Samples, int> counts;
  constexpr int kEpochs = 24000;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    ++counts[ddp::epoch_order(4, 1, static_cast<std::uint64_t>(epoch))];
  }
  REQUIRE(counts.size() == 24);
  double chi_squared = 0;
  for (const auto& [order, count] : counts) {
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  }
  CHECK(chi_squared < 49.7);  // 23 degrees of freedom, p = 0.001
}

TEST_CASE("every sample is seen exactly once, in the same order in every world",
          "[worker_runtime]") {
  for (const std::size_t samples : {0, 1, 5, 64, 101}) {
    const Samples order = ddp::epoch_order(samples, 0, 3);
    for (const int world : {1, 2, 3, 4, 7, 128}) {
      for (const std::size_t batch : {1, 3, 32}) {
        const std::size_t steps = DistributedSampler(samples, 0, world).steps(batch);
        std::size_t done = 0;
        REQUIRE(train(samples, world, batch, steps, 3, done) == order);
        REQUIRE(done == samples);
      }
    }
  }
}

TEST_CASE("a resume in another world goes on with exactly the samples left", "[worker_runtime]") {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t samples = 1 + random() % 500;
    Samples seen;
    std::size_t done = 0;
    while (done < samples) {
      const int world = 1 + static_cast<int>(random() % 6);
      const std::size_t batch = 1 + random() % 9;
      const std::size_t steps = 1 + random() % 8;
      const Samples more = train(samples, world, batch, steps, 5, done);
      seen.insert(seen.end(), more.begin(), more.end());
      REQUIRE(seen.size() == done);
    }
    REQUIRE(seen == ddp::epoch_order(samples, 0, 5));
  }
}

TEST_CASE("padding and dropping give every rank as many samples", "[worker_runtime]") {
  for (int rank = 0; rank < 4; ++rank) {
    DistributedSampler pad(10, rank, 4, {.shuffle = false, .tail = SamplerOptions::Tail::pad});
    DistributedSampler drop(10, rank, 4, {.shuffle = false, .tail = SamplerOptions::Tail::drop});
    CHECK(pad.size() == 3);
    CHECK(drop.size() == 2);
    CHECK(pad.steps(2) == 2);
    CHECK(drop.steps(2) == 1);
    // As torch pads: the order goes on from its start.
    CHECK(pad.indices()[2] == (8 + static_cast<std::size_t>(rank)) % 10);
  }
  DistributedSampler more_ranks(2, 4, 5, {.shuffle = false, .tail = SamplerOptions::Tail::pad});
  REQUIRE(more_ranks.size() == 1);
  CHECK(more_ranks.indices()[0] == 0);
}

TEST_CASE("steps are the same on every rank, the last may be short or empty", "[worker_runtime]") {
  const DistributedSampler first(9, 0, 4);
  const DistributedSampler last(9, 3, 4);
  CHECK(first.steps(2) == 2);
  CHECK(last.steps(2) == 2);
  CHECK(first.batch(1, 2).size() == 1);
  CHECK(last.batch(1, 2).empty());
  CHECK(last.batch(5, 2).empty());
}

TEST_CASE("a rank outside of the world is refused", "[worker_runtime]") {
  CHECK_THROWS_AS(DistributedSampler(9, 4, 4), ddp::InvalidArgument);
  CHECK_THROWS_AS(DistributedSampler(9, 0, 1).batch(0, 0), ddp::InvalidArgument);
}

TEST_CASE("shares say who takes which samples of a step, never which samples a step has",
          "[worker_runtime]") {
  const std::vector<Samples> divisions = {{6, 2, 1}, {1, 1, 7}, {3, 3, 3}, {9, 0, 0}, {}};
  std::size_t done = 0;
  Samples all;
  // Shares may change in the middle of the epoch. 100 samples: 11 steps of 9, and one of 1.
  for (std::size_t part = 0; done < 100; ++part) {
    const auto& shares = divisions[part % divisions.size()];
    std::vector<DistributedSampler> ranks;
    for (int rank = 0; rank < 3; ++rank) {
      ranks.emplace_back(100, rank, 3);
      ranks.back().share_out(shares);
      ranks.back().start_epoch(4, done);
    }
    const std::size_t steps = std::min<std::size_t>(2, ranks[0].steps(3));
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t left = 100 - ranks[0].samples_done(step, 3);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        const auto mine = ranks[rank].batch(step, 3);
        all.insert(all.end(), mine.begin(), mine.end());
        if (left >= 9 && !shares.empty()) {
          CHECK(mine.size() == shares[rank]);
        }
      }
    }
    done = ranks[0].samples_done(steps, 3);
    CHECK(all.size() == done);
    Samples seen = all;
    auto order = ddp::epoch_order(100, 0, 4);
    order.resize(done);
    std::sort(seen.begin(), seen.end());
    std::sort(order.begin(), order.end());
    CHECK(seen == order);
  }
}

TEST_CASE("the last, short step of an epoch is shared out in proportion", "[worker_runtime]") {
  for (int rank = 0; rank < 2; ++rank) {
    DistributedSampler sampler(28, rank, 2);
    sampler.share_out({12, 4});
    sampler.start_epoch(0);
    CHECK(sampler.batch(1, 8).size() == (rank == 0 ? 9 : 3));
    CHECK(sampler.steps(8) == 2);
  }
}

TEST_CASE("equal shares give each rank the samples of no shares", "[worker_runtime]") {
  DistributedSampler plain(50, 1, 4);
  DistributedSampler shared(50, 1, 4);
  shared.share_out({3, 3, 3, 3});
  shared.start_epoch(0);
  CHECK(Samples(shared.indices().begin(), shared.indices().end()) ==
        Samples(plain.indices().begin(), plain.indices().end()));
  CHECK_THROWS_AS(shared.batch(0, 2), ddp::InvalidArgument);
  CHECK_THROWS_AS(shared.share_out({1, 2}), ddp::InvalidArgument);
  CHECK_THROWS_AS(shared.share_out({0, 0, 0, 0}), ddp::InvalidArgument);
}
