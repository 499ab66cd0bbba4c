#include "trainer/resnet/resnet.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>

#include "ddp/error.h"
#include "trainer/layers/dense.h"
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

Resnet::Resnet(const ResnetShape& shape, std::uint64_t seed) : shape_(shape) {
  if (shape.depth != 18 && shape.depth != 50) {
    throw InvalidArgument("Resnet: there is depth 18 and depth 50, not " +
                          std::to_string(shape.depth));
  }
  stem_.emplace_back(model_, "conv1", "bn1", stem_shape(shape));
  add_blocks();
  classifier_ = model_.parameters.size();
  const auto features = blocks_.back().out_channels();
  model_.parameters.push_back({"fc.weight", Tensor::zeros({shape.classes, features}), {}});
  model_.parameters.push_back({"fc.bias", Tensor::zeros({shape.classes}), {}});
  set_first_weights(seed);
}

/// Each stage but the first halves the side and doubles the width, in its first block.
void Resnet::add_blocks() {
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
                           BlockShape{channels, width, side, stride, shape_.depth != 18});
      channels = blocks_.back().out_channels();
      side = blocks_.back().out_side();
    }
  }
}

void Resnet::set_first_weights(std::uint64_t seed) {
  Uniform random(seed);
  for (auto& [name, value, gradient] : model_.parameters) {
    const auto& dims = value.shape();
    if (dims.size() == 4) {
      const auto fan_out = static_cast<float>(dims[0] * dims[2] * dims[3]);
      const float deviation = std::sqrt(2.0F / fan_out);
      for (float& w : value.values<float>()) {
        w = deviation * normal(random);
      }
    } else if (name.starts_with("fc.")) {
      const float bound = 1.0F / std::sqrt(static_cast<float>(blocks_.back().out_channels()));
      for (float& w : value.values<float>()) {
        w = (2 * random.next() - 1) * bound;
      }
    }
  }
}

float* Resnet::forward(std::int64_t batch, const float* images, bool training) {
  batch_ = batch;
  const float* x = stem_[0].forward(model_, {.batch = batch, .x = images, .training = training});
  const auto& stem = stem_[0].shape();
  if (shape_.stem == Stem::large) {
    const auto side = max_pooled(stem.out_height());
    float* pooled = reserve(pooled_, batch * side * side * kStemChannels);
    chosen_.resize(pooled_.size());
    max_pool_forward({stem.out_height(), stem.out_width(), kStemChannels}, batch, x, pooled,
                     chosen_.data());
    x = pooled;
  }
  for (auto& block : blocks_) {
    x = block.forward(model_, batch, x, training);
  }
  const auto& last = blocks_.back();
  float* means = reserve(means_, batch * last.out_channels());
  float* scores = reserve(scores_, batch * shape_.classes);
  mean_pool_forward({last.out_side(), last.out_side(), last.out_channels()}, batch, x, means);
  dense_forward({last.out_channels(), shape_.classes}, batch, means,
                model_.parameters[classifier_].value.data<float>(),
                model_.parameters[classifier_ + 1].value.data<float>(), scores);
  return scores;
}

/// Three areas of the largest layer's size: gradients of all layers take turns in them.
BackwardScratch Resnet::reserve_scratch() {
  auto largest = stem_[0].output_size();
  for (const auto& block : blocks_) {
    largest = std::max(largest, block.largest());
  }
  const auto count = largest * batch_;
  float* memory = reserve(scratch_, 3 * count);
  return {memory, memory + count, memory + 2 * count};
}

/// Last layer first. Each gradient is reported as soon as it is complete, so that buckets leave
/// while the rest is computed.
void Resnet::backward(const float* d_scores, const GradientReady& ready) {
  const auto scratch = reserve_scratch();
  const auto& last = blocks_.back();
  const auto& weight = model_.parameters[classifier_];
  const auto& bias = model_.parameters[classifier_ + 1];
  float* d_means = reserve(d_means_, batch_ * last.out_channels());
  dense_backward({last.out_channels(), shape_.classes}, batch_,
                 {.x = means_.data<float>(),
                  .weight = weight.value.data<float>(),
                  .d_y = d_scores,
                  .d_weight = weight.gradient.data<float>(),
                  .d_bias = bias.gradient.data<float>(),
                  .d_x = d_means});
  ready(classifier_ + 1);
  ready(classifier_);
  mean_pool_backward({last.out_side(), last.out_side(), last.out_channels()}, batch_, d_means,
                     scratch.gradient);
  for (auto block = blocks_.rbegin(); block != blocks_.rend(); ++block) {
    block->backward(model_, scratch, ready);
  }
  float* d_stem = scratch.gradient;
  if (shape_.stem == Stem::large) {
    const auto& stem = stem_[0].shape();
    max_pool_backward({stem.out_height(), stem.out_width(), kStemChannels}, batch_,
                      scratch.gradient, chosen_.data(), scratch.inside);
    d_stem = scratch.inside;
  }
  stem_[0].backward(model_, d_stem, scratch.conv, nullptr, ready);
}

}  // namespace ddp
