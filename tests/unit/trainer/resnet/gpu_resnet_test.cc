// A whole ResNet on a GPU against the CPU's: loss, gradients, running statistics, and where some
// steps of SGD end.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/unit/trainer/layers/gpu_case.h"
#include "trainer/optimizer.h"
#include "trainer/resnet/passes.h"

namespace ddp_test {
namespace {

constexpr std::int64_t kImages = 6;

struct TrainedResnet {
  std::vector<double> losses;     ///< of each step, as sums
  std::vector<Floats> gradients;  ///< of the first step, of each parameter
  std::vector<Floats> buffers;    ///< after it
  std::vector<Floats> values;     ///< at the end
};

/// The scores' gradient by a fixed rule in place of a loss: the whole model in Reals.
template <class Real>
TrainedResnet train_resnet(const ddp::ResnetShape& shape, ddp::Device device, int steps) {
  ddp::ResnetOf<Real> model(shape, 1, device);
  auto& tensors = model.tensors();
  for (ddp::Parameter& parameter : tensors.parameters) {
    parameter.gradient = ddp::Tensor::zeros(parameter.value.shape(), ddp::DType::f32, device);
  }
  ddp::Sgd optimizer(tensors.parameters, device.is_cuda() ? ddp::gpu_kernels() : ddp::cpu_kernels(),
                     0.01F, 0.9F);
  const auto stored = static_cast<std::size_t>(ddp::stored_channels(3, device));
  const auto points = static_cast<std::size_t>(kImages * shape.side * shape.side);
  const Floats colours = random_floats(points * 3, 5);
  std::vector<Real> pixels(points * stored);
  for (std::size_t i = 0; i < colours.size(); ++i) {
    pixels[i / 3 * stored + i % 3] =
        ddp::rounded<Real>(ddp::widened(ddp::rounded<ddp::BFloat16>(colours[i])));
  }
  const auto images = ddp::Tensor::from(pixels, device);
  std::vector<std::int32_t> labels = {1, 0, 9, 3, 3, 7};
  const auto targets = ddp::Tensor::from(labels, device);
  const auto sums = ddp::Tensor::zeros({2}, ddp::DType::f64, device);
  TrainedResnet trained;
  for (int step = 0; step < steps; ++step) {
    for (const ddp::Parameter& parameter : tensors.parameters) {
      parameter.gradient.zero();
    }
    sums.zero();
    Real* scores = model.forward(kImages, images.template data<Real>(), true);
    ddp::image_layers<Real>(device).class_loss(
        {scores, targets.template data<std::int32_t>(), sums.template data<double>(), true,
         labels.size(), 10},
        device.index);
    std::size_t told = 0;
    model.backward(scores, [&](std::size_t) { ++told; });
    CHECK(told == tensors.parameters.size());
    trained.losses.push_back(sums.template to_vector<double>()[0]);
    for (std::size_t i = 0; step == 0 && i < tensors.parameters.size(); ++i) {
      trained.gradients.push_back(tensors.parameters[i].gradient.template to_vector<float>());
    }
    for (std::size_t i = 0; step == 0 && i < tensors.buffers.size(); ++i) {
      trained.buffers.push_back(tensors.buffers[i].tensor.template to_vector<float>());
    }
    optimizer.step();
  }
  for (const ddp::Parameter& parameter : tensors.parameters) {
    trained.values.push_back(parameter.value.template to_vector<float>());
  }
  return trained;
}

/// Of the lengths of all gradients as one vector: batch norms over few images make some of them
/// differences of nearly equal numbers.
double distance(const std::vector<Floats>& mine, const std::vector<Floats>& exact) {
  double off = 0, length = 0;
  REQUIRE(mine.size() == exact.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    REQUIRE(mine[i].size() == exact[i].size());
    for (std::size_t k = 0; k < mine[i].size(); ++k) {
      off += std::pow(static_cast<double>(mine[i][k]) - static_cast<double>(exact[i][k]), 2);
      length += std::pow(static_cast<double>(exact[i][k]), 2);
    }
  }
  return std::sqrt(off / length);
}

/// On a CPU a change of the images by 1e-6 of themselves moves the gradients by up to 0.004 (18)
/// and 0.06 (50): where it takes a value over ReLU's edge, what lies before it has another
/// gradient.
void check_f32(int depth, double gradients) {
  const ddp::ResnetShape shape{.depth = depth, .stem = ddp::Stem::large, .side = 32};
  const TrainedResnet cpu = train_resnet<float>(shape, {}, 1);
  const TrainedResnet gpu = train_resnet<float>(shape, ddp::Device::cuda(0), 1);
  CHECK(gpu.losses[0] == Approx(cpu.losses[0]).epsilon(1e-4));
  CHECK(distance(gpu.gradients, cpu.gradients) < gradients);
  CHECK(distance(gpu.buffers, cpu.buffers) < 1e-4);
}

}  // namespace

TEST_CASE("a ResNet-18 on a GPU in f32 learns as on the CPU", "[long]") {
  NEED_GPU();
  check_f32(18, 0.01);
}

TEST_CASE("a ResNet-50 on a GPU in f32 learns as on the CPU", "[long]") {
  NEED_GPU();
  check_f32(50, 0.15);
}

TEST_CASE("a ResNet on a GPU in bf16 learns as on the CPU, but for rounding") {
  NEED_GPU();
  const ddp::ResnetShape shape{.depth = 18, .stem = ddp::Stem::small, .side = 8};
  const TrainedResnet cpu = train_resnet<float>(shape, {}, 1);
  const TrainedResnet gpu = train_resnet<ddp::BFloat16>(shape, ddp::Device::cuda(0), 1);
  CHECK(gpu.losses[0] == Approx(cpu.losses[0]).epsilon(0.03));
  // A rounding of the images alone moves the CPU's by 0.23.
  CHECK(distance(gpu.gradients, cpu.gradients) < 0.6);
  CHECK(distance(gpu.buffers, cpu.buffers) < 0.02);
  CHECK(gpu.gradients != cpu.gradients);  // it was bf16
}

TEST_CASE("a GPU ends a ResNet's training with the same bits every time", "[long]") {
  NEED_GPU();
  const ddp::ResnetShape shape{.depth = 18, .stem = ddp::Stem::large, .side = 32};
  const TrainedResnet first = train_resnet<ddp::BFloat16>(shape, ddp::Device::cuda(0), 2);
  const TrainedResnet again = train_resnet<ddp::BFloat16>(shape, ddp::Device::cuda(0), 2);
  CHECK(again.losses == first.losses);
  CHECK(again.gradients == first.gradients);
  CHECK(again.values == first.values);
}

}  // namespace ddp_test
