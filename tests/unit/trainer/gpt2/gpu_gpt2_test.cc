// A whole GPT-2 on a GPU against the CPU's: loss, gradients, and where some steps of AdamW end.
#include <catch2/catch.hpp>

#include "ddp/error.h"
#include "tests/unit/trainer/layers/gpu_case.h"
#include "trainer/adamw.h"
#include "trainer/gpt2/model.h"
#include "trainer/gpt2/parameters.h"

namespace ddp_test {
namespace {

constexpr ddp::Gpt2Config kConfig{2, 2, 24, 9, 19};
constexpr std::size_t kBatch = 3, kTime = 9;

struct Trained {
  std::vector<double> losses;     ///< of each step, as sums
  std::vector<Floats> gradients;  ///< of the first step, of each parameter
  Floats logits;                  ///< at the end
};

Trained train(ddp::Device device, ddp::Precision precision) {
  ddp::Gpt2 model(kConfig, kBatch, kTime, device, precision);
  ddp::initialise_gpt2(kConfig, 1, model.parameters());
  for (ddp::Parameter& parameter : model.parameters()) {
    parameter.gradient = ddp::Tensor::empty(parameter.value.shape(), ddp::DType::f32, device);
  }
  const ddp::AdamW optimizer(model.parameters(),
                             device.is_cuda() ? ddp::gpu_layers<float>() : ddp::cpu_layers(),
                             {.clip = 0.5});
  std::vector<std::int32_t> tokens, targets;
  for (std::size_t i = 0; i < kBatch * kTime; ++i) {
    tokens.push_back(static_cast<std::int32_t>(i * 7 % kConfig.vocabulary));
    targets.push_back(i % 5 == 4 ? ddp::kIgnoredTarget
                                 : static_cast<std::int32_t>(i * 11 % kConfig.vocabulary));
  }
  const ddp::TokenBatch batch{tokens, targets, kBatch, kTime};
  Trained trained;
  for (std::int64_t step = 1; step <= 3; ++step) {
    for (const ddp::Parameter& parameter : model.parameters()) {
      parameter.gradient.zero();
    }
    trained.losses.push_back(model.forward(batch));
    std::size_t told = 0;
    model.backward(batch, [&](std::size_t) { ++told; });
    CHECK(told == model.parameters().size());
    for (const ddp::Parameter& parameter : model.parameters()) {
      if (step == 1) {
        trained.gradients.push_back(parameter.gradient.to_vector<float>());
      }
    }
    optimizer.step(step, 1e-3, optimizer.gradient_norm());
  }
  const double last = model.loss(batch);
  CHECK(last < trained.losses.back());
  trained.losses.push_back(last);
  const auto logits = model.next_logits(std::span(tokens).first(5));
  trained.logits.assign(logits.begin(), logits.end());
  return trained;
}

void check_equal(const Trained& gpu, const Trained& cpu, double loss, double gradient,
                 double logits) {
  for (std::size_t step = 0; step < cpu.losses.size(); ++step) {
    INFO("step " << step);
    CHECK(gpu.losses[step] == Approx(cpu.losses[step]).epsilon(loss));
  }
  for (std::size_t i = 0; i < cpu.gradients.size(); ++i) {
    INFO("parameter " << i);
    CHECK(difference(gpu.gradients[i], cpu.gradients[i]) < gradient);
  }
  CHECK(difference(gpu.logits, cpu.logits) < logits);
}

}  // namespace

TEST_CASE("a GPT-2 on a GPU in f32 learns as on the CPU") {
  NEED_GPU();
  const Trained cpu = train({}, ddp::Precision::f32);
  in_each_order([&] {
    check_equal(train(ddp::Device::cuda(0), ddp::Precision::f32), cpu, 1e-5, 1e-5, 1e-4);
  });
}

TEST_CASE("a GPT-2 on a GPU in bf16 learns as on the CPU, but for rounding") {
  NEED_GPU();
  const Trained cpu = train({}, ddp::Precision::f32);
  const Trained gpu = train(ddp::Device::cuda(0), ddp::Precision::automatic);
  // Some twenty roundings of half a percent each, on the way to each number.
  check_equal(gpu, cpu, 5e-3, 3e-2, 3e-2);
  CHECK(gpu.logits != cpu.logits);  // it was bf16
}

TEST_CASE("a GPU ends with the same bits every time") {
  NEED_GPU();
  const Trained first = train(ddp::Device::cuda(0), ddp::Precision::automatic);
  const Trained again = train(ddp::Device::cuda(0), ddp::Precision::automatic);
  CHECK(again.losses == first.losses);
  CHECK(again.gradients == first.gradients);
  CHECK(again.logits == first.logits);
}

TEST_CASE("a model whose heads are too large for a GPU is refused in a sentence") {
  NEED_GPU();
  CHECK_THROWS_WITH(ddp::Gpt2({1, 1, 80, 4, 5}, 1, 4, ddp::Device::cuda(0)),
                    "a GPU trains heads of up to 64 channels, and this model's have 80; hide the "
                    "GPUs by CUDA_VISIBLE_DEVICES= to train it on CPUs");
}

}  // namespace ddp_test
