#include "trainer/resnet/resnet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "ddp/error.h"
#include "trainer/uniform.h"

namespace ddp {
namespace {

constexpr std::int64_t kStemChannels = 64;
/// Blocks in each of the four stages (the paper's table 1).
constexpr std::array<int, 4> kBlocks18 = {2, 2, 2, 2};
constexpr std::array<int, 4> kBlocks50 = {3, 4, 6, 3};

/// Images of 32 pixels would lose most of what they show in the large stem.
Conv2dShape stem_shape(const ResnetShape& shape) {
  return shape.stem == Stem::small ? Conv2dShape{3, kStemChannels, shape.side, shape.side, 3, 1, 1}
                                   : Conv2dShape{3, kStemChannels, shape.side, shape.side, 7, 2, 3};
}

/// Box and Muller's transform: two uniform numbers to a normal one.
float normal(Uniform& random) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.next())));
  return static_cast<float>(radius *
                            std::cos(2 * std::numbers::pi * static_cast<double>(random.next())));
}

}  // namespace

template <class Real>
ResnetOf<Real>::ResnetOf(const ResnetShape& shape, std::uint64_t seed, Device device)
    : shape_(shape), device_(device), layers_(&image_layers<Real>(device)) {
  if (shape.depth != 18 && shape.depth != 50) {
    throw InvalidArgument("Resnet: there is depth 18 and depth 50, not " +
                          std::to_string(shape.depth));
  }
  stem_.emplace_back(model_, "conv1", "bn1", stem_shape(shape), device);
  add_blocks();
  classifier_ = model_.parameters.size();
  const auto features = blocks_.back().out_channels();
  model_.parameters.push_back(
      {"fc.weight", Tensor::zeros({shape.classes, features}, DType::f32, device), {}});
  model_.parameters.push_back({"fc.bias", Tensor::zeros({shape.classes}, DType::f32, device), {}});
  set_first_weights(seed);
}

/// Each stage but the first halves the side and doubles the width, in its first block.
template <class Real>
void ResnetOf<Real>::add_blocks() {
  auto side = stem_[0].shape().out_height();
  if (shape_.stem == Stem::large) {
    side = max_pooled(side);
  }
  const auto& counts = shape_.depth == 18 ? kBlocks18 : kBlocks50;
  auto channels = kStemChannels;
  auto width = kStemChannels;
  for (std::size_t stage = 0; stage < counts.size(); ++stage, width *= 2) {
    for (int block = 0; block < counts.at(stage); ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      blocks_.emplace_back(model_, fmt::format("layer{}.{}", stage + 1, block),
                           BlockShape{channels, width, side, stride, shape_.depth != 18}, device_);
      channels = blocks_.back().out_channels();
      side = blocks_.back().out_side();
    }
  }
}

/// Made on the CPU, so that they have the same bits on every device.
template <class Real>
void ResnetOf<Real>::set_first_weights(std::uint64_t seed) {
  Uniform random(seed);
  for (auto& [name, value, gradient] : model_.parameters) {
    const auto& dims = value.shape();
    std::vector<float> weights(value.size());
    if (dims.size() == 4) {
      const auto fan_out = static_cast<float>(dims[0] * dims[2] * dims[3]);
      const float deviation = std::sqrt(2.0F / fan_out);
      for (float& w : weights) {
        w = deviation * normal(random);
      }
    } else if (name.starts_with("fc.")) {
      const float bound = 1.0F / std::sqrt(static_cast<float>(blocks_.back().out_channels()));
      for (float& w : weights) {
        w = (2 * random.next() - 1) * bound;
      }
    } else {
      continue;  // a norm's
    }
    value.copy_from_host(weights.data());
  }
}

/// Each forward pass anew: the optimizer, a snapshot or another rank may have changed them since.
template <class Real>
const Real* ResnetOf<Real>::classifier(std::size_t index, Tensor& copy) const {
  const Tensor& value = model_.parameters[index].value;
  if constexpr (sizeof(Real) == sizeof(float)) {
    return value.template data<float>();
  } else {
    Real* rounded = reserve<Real>(copy, static_cast<std::int64_t>(value.size()), device_);
    layers_->round(value.template data<float>(), rounded, value.size(), device_.index);
    return rounded;
  }
}

template <class Real>
Real* ResnetOf<Real>::forward(std::int64_t batch, const Real* images, bool training) {
  batch_ = batch;
  const Real* x = stem_[0].forward(model_, {.batch = batch, .x = images, .training = training});
  const auto& stem = stem_[0].shape();
  if (shape_.stem == Stem::large) {
    const auto side = max_pooled(stem.out_height());
    const auto count = batch * side * side * kStemChannels;
    Real* pooled = reserve<Real>(pooled_, count, device_);
    layers_->max_pool_forward({stem.out_height(), stem.out_width(), kStemChannels}, batch, x,
                              pooled, reserve<std::uint8_t>(chosen_, count, device_),
                              device_.index);
    x = pooled;
  }
  for (auto& block : blocks_) {
    x = block.forward(model_, batch, x, training);
  }
  // The scores are written anew in each pass, since their gradient takes their place.
  const auto& last = blocks_.back();
  Real* means = reserve<Real>(means_, batch * last.out_channels(), device_);
  Real* scores = reserve<Real>(scores_, batch * shape_.classes, device_);
  layers_->mean_pool_forward({last.out_side(), last.out_side(), last.out_channels()}, batch, x,
                             means, device_.index);
  layers_->dense_forward({last.out_channels(), shape_.classes}, batch, means,
                         classifier(classifier_, weight_), classifier(classifier_ + 1, bias_),
                         scores, device_.index);
  return scores;
}

/// Three areas of the largest layer's size: gradients of all layers take turns in them.
template <class Real>
BackwardScratch<Real> ResnetOf<Real>::reserve_scratch() {
  auto largest = stem_[0].output_size();
  for (const auto& block : blocks_) {
    largest = std::max(largest, block.largest());
  }
  const auto count = largest * batch_;
  Real* memory = reserve<Real>(scratch_, 3 * count, device_);
  return {memory, memory + count, memory + 2 * count};
}

/// Last layer first. Each gradient is reported as soon as it is complete, so that buckets leave
/// while the rest is computed.
template <class Real>
void ResnetOf<Real>::backward(const Real* d_scores, const GradientReady& ready) {
  const auto scratch = reserve_scratch();
  const auto& last = blocks_.back();
  Real* d_means = reserve<Real>(d_means_, batch_ * last.out_channels(), device_);
  // With the copy that forward has made.
  const Real* weight =
      weight_.defined() ? weight_.template data<Real>() : classifier(classifier_, weight_);
  layers_->dense_backward(
      {last.out_channels(), shape_.classes}, batch_,
      {.x = means_.template data<Real>(),
       .weight = weight,
       .d_y = d_scores,
       .d_weight = model_.parameters[classifier_].gradient.template data<float>(),
       .d_bias = model_.parameters[classifier_ + 1].gradient.template data<float>(),
       .d_x = d_means},
      device_.index);
  ready(classifier_ + 1);
  ready(classifier_);
  layers_->mean_pool_backward({last.out_side(), last.out_side(), last.out_channels()}, batch_,
                              d_means, scratch.gradient, device_.index);
  const Real* d_more = nullptr;
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    block->backward(model_, scratch, d_more, ready);
    d_more = scratch.inside;
  }
  Real* d_stem = scratch.gradient;
  if (shape_.stem == Stem::large) {
    const auto& stem = stem_[0].shape();
    layers_->max_pool_backward({stem.out_height(), stem.out_width(), kStemChannels}, batch_,
                               scratch.gradient, chosen_.data<std::uint8_t>(), scratch.conv, d_more,
                               device_.index);
    d_stem = scratch.conv;
    d_more = nullptr;
  }
  // Whichever of the two the pool's gradient does not lie in.
  Real* d_z = d_stem == scratch.conv ? scratch.inside : scratch.conv;
  stem_[0].backward(model_, {.d_y = d_stem, .d_more = d_more, .d_z = d_z}, ready);
}

template class ResnetOf<float>;
template class ResnetOf<BFloat16>;

}  // namespace ddp
