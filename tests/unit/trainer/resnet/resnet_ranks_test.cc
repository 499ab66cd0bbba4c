// A ResNet's gradients on several ranks.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "ddp/ddp.h"
#include "tests/unit/worker_runtime/ranks.h"
#include "trainer/fingerprint.h"
#include "trainer/optimizer.h"
#include "trainer/resnet/resnet.h"
#include "trainer/threads.h"
#include "trainer/uniform.h"

namespace ddp_test {
namespace {

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kSide = 32;

/// Of the weights after two steps on two ranks; the same on both.
std::string weights_of_two_ranks(bool rebuild) {
  Ranks ranks(2, [&](int rank) -> std::string {
    const ddp::Context context = ddp::init({.backend = ddp::Backend::gloo});
    ddp::choose_threads(context);  // its share of the processors
    ddp::Resnet model({.depth = 18, .stem = ddp::Stem::large, .side = kSide, .classes = 10}, 1);
    auto& parameters = model.tensors().parameters;
    ddp::DistributedDataParallel parallel(context.group(), parameters);
    ddp::Sgd optimizer(parameters, ddp::cpu_kernels(), 0.1F, 0.9F);
    ddp::Uniform random(static_cast<std::uint64_t>(rank));
    for (int step = 0; step < 2; ++step) {
      std::vector<float> images(kBatch * kSide * kSide * 3);
      std::vector<float> d_scores(kBatch * 10);
      for (auto* values : {&images, &d_scores}) {
        for (float& value : *values) {
          value = random.next() - 0.5F;
        }
      }
      parallel.begin(kBatch);
      model.forward(kBatch, images.data(), true);
      model.backward(d_scores.data(), [&](std::size_t i) { parallel.gradient_ready(i); });
      parallel.finish();
      if (rebuild && step == 0) {
        expect(parallel.rebuild_buckets(parameters), "shortcuts are complete after their path");
      }
      optimizer.step();
    }
    ddp::Fingerprint weights;
    for (const auto& parameter : parameters) {
      weights.add(parameter.value.raw(), parameter.value.size_bytes());
    }
    return weights.text();
  });
  const auto outcomes = ranks.finish();
  CHECK(outcomes[0].exit_code == 0);
  CHECK(outcomes[1].exit_code == 0);
  CHECK(outcomes[0].text == outcomes[1].text);
  return outcomes[0].text;
}

}  // namespace

TEST_CASE("a ResNet whose buckets are rebuilt in the order of backward keeps every bit") {
  const auto rebuilt = weights_of_two_ranks(true);
  CHECK(rebuilt.size() == 16);
  CHECK(rebuilt == weights_of_two_ranks(false));
}

}  // namespace ddp_test
