// The same batch on one rank, or shared by several: the same training.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/worker_runtime/ranks.h"
#include "trainer/adamw.h"
#include "trainer/gpt2/model.h"
#include "trainer/gpt2/parameters.h"
#include "trainer/uniform.h"

namespace ddp_test {
namespace {

constexpr ddp::Gpt2Config kConfig{2, 2, 32, 8, 19};
constexpr std::size_t kSequences = 8;
constexpr std::int64_t kSteps = 5;

std::vector<std::int32_t> tokens_of(std::int64_t step, std::size_t sequence) {
  ddp::Uniform random(static_cast<std::uint64_t>(step) * 100 + sequence);
  std::vector<std::int32_t> tokens;
  for (std::size_t t = 0; t <= kConfig.context; ++t) {
    tokens.push_back(static_cast<std::int32_t>(19 * random.next()));
  }
  // Each sequence has another number of targets that count.
  tokens[1 + sequence % 3] = sequence % 2 == 0 ? ddp::kIgnoredTarget : tokens[1 + sequence % 3];
  return tokens;
}

/// Trains on sequences [first, end) of each step, in `parts` micro-steps; writes the weights.
void train(std::size_t first, std::size_t end, std::size_t parts, const std::string& file) {
  const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
  ddp::Gpt2 model(kConfig, kSequences, kConfig.context);
  ddp::initialise_gpt2(kConfig, static_cast<std::uint64_t>(context.rank()), model.parameters());
  ddp::DistributedDataParallel parallel(context.group(), model.parameters());
  const ddp::AdamW optimizer(model.parameters(), ddp::cpu_layers(), {.clip = 0.5});
  const auto micro_step = [&](std::int64_t step, std::size_t from, std::size_t to,
                              ddp::Gradients before) {
    std::vector<std::int32_t> inputs, targets;
    std::int64_t counted = 0;
    for (std::size_t sequence = from; sequence < to; ++sequence) {
      const auto tokens = tokens_of(step, sequence);
      for (std::size_t t = 0; t < kConfig.context; ++t) {
        inputs.push_back(std::max(tokens[t], 0));
        targets.push_back(tokens[t + 1]);
        counted += tokens[t + 1] >= 0 ? 1 : 0;
      }
    }
    const ddp::TokenBatch batch{inputs, targets, to - from, kConfig.context};
    parallel.begin(counted);
    model.forward(batch);
    model.backward(
        batch, [&](std::size_t i) { parallel.gradient_ready(i); }, before);
    parallel.finish();
  };
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const std::size_t size = (end - first) / parts;
    for (std::size_t part = 0; part + 1 < parts; ++part) {
      const auto guard = parallel.no_sync();
      micro_step(step, first + part * size, first + (part + 1) * size,
                 part == 0 ? ddp::Gradients::zero : ddp::Gradients::sums);
    }
    micro_step(step, first + (parts - 1) * size, end,
               parts == 1 ? ddp::Gradients::zero : ddp::Gradients::sums);
    // A resumed run's first step must have the buckets of every other step.
    expect(!parallel.rebuild_buckets(model.parameters()),
           "gradients are complete in the reverse order of registration");
    optimizer.step(step + 1, 1e-3, optimizer.gradient_norm());
  }
  std::ofstream out(file, std::ios::binary);
  for (const auto& parameter : model.parameters()) {
    const auto values = parameter.value.to_vector<float>();
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
  }
}

std::vector<float> read_floats(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
  return values;
}

/// Weights after training with the sequences cut at these places, one rank for each part.
std::vector<std::vector<float>> weights_of_ranks(const std::vector<std::size_t>& cuts,
                                                 std::size_t parts = 1) {
  const ddprun::test::TempDir dir;
  const int world_size = static_cast<int>(cuts.size()) - 1;
  require_on_all_ranks(world_size, "done", [&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    train(cuts[r], cuts[r + 1], parts, dir.file(std::to_string(rank)));
    return std::string("done");
  });
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < world_size; ++rank) {
    all.push_back(read_floats(dir.file(std::to_string(rank))));
  }
  return all;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return worst;
}

}  // namespace

TEST_CASE("ranks that share a batch, evenly or not, end where one rank with all of it does") {
  const auto one = weights_of_ranks({0, 8})[0];
  REQUIRE(one.size() == ddp::parameter_count(kConfig));
  const std::vector<std::vector<std::size_t>> worlds = {
      {0, 4, 8}, {0, 2, 4, 6, 8}, {0, 7, 8}, {0, 8, 8}};
  for (const auto& cuts : worlds) {
    const auto all = weights_of_ranks(cuts);
    CHECK(largest_difference(all[0], one) < 1e-5);
    for (const auto& weights : all) {
      CHECK(weights == all[0]);  // bit for bit
    }
  }
}

TEST_CASE("micro-steps that make one step end where one step with all of it does") {
  const auto one = weights_of_ranks({0, 8})[0];
  CHECK(largest_difference(weights_of_ranks({0, 8}, 4)[0], one) < 1e-5);
  CHECK(largest_difference(weights_of_ranks({0, 4, 8}, 2)[1], one) < 1e-5);
}

}  // namespace ddp_test
