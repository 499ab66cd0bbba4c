#include "trainer/resnet/residual_block.h"

#include <algorithm>

#include "trainer/layers/row_chunks.h"

namespace ddp {
namespace {

constexpr std::int64_t kExpansion = 4;  ///< of a bottleneck's last convolution

/// By row chunks, as all sums of these layers: the order does not depend on the number of threads.
void add_to(float* sum, const float* more, std::int64_t count) {
  for_row_chunks(count, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto i = first; i < end; ++i) {
      sum[i] += more[i];
    }
  });
}

}  // namespace

/// He et al. 2016, figure 5, with the stride in the 3 x 3 convolution, as torchvision has it. A
/// shortcut with weights is there only where the shapes differ (their option B).
ResidualBlock::ResidualBlock(ModelTensors& model, const std::string& name,
                             const BlockShape& shape) {
  auto channels = shape.in_channels;
  auto side = shape.side;
  const auto add = [&](std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const auto number = std::to_string(path_.size() + 1);
    path_.emplace_back(model, name + ".conv" + number, name + ".bn" + number,
                       Conv2dShape{channels, out, side, side, kernel, stride, kernel / 2});
    channels = out;
    side = path_.back().shape().out_height();
  };
  if (shape.bottleneck) {
    add(shape.width, 1, 1);
    add(shape.width, 3, shape.stride);
    add(shape.width * kExpansion, 1, 1);
  } else {
    add(shape.width, 3, shape.stride);
    add(shape.width, 3, 1);
  }
  if (shape.stride != 1 || channels != shape.in_channels) {
    shortcut_.emplace(
        model, name + ".downsample.0", name + ".downsample.1",
        Conv2dShape{shape.in_channels, channels, shape.side, shape.side, 1, shape.stride, 0});
  }
}

std::int64_t ResidualBlock::out_channels() const {
  return path_.back().shape().out_channels;
}

std::int64_t ResidualBlock::out_side() const {
  return path_.back().shape().out_height();
}

/// One scratch of this size serves every unit of the block in turn.
std::int64_t ResidualBlock::largest() const {
  std::int64_t largest = 0;
  for (const auto& unit : path_) {
    largest = std::max({largest, unit.input_size(), unit.output_size()});
  }
  return largest;
}

const float* ResidualBlock::forward(const ModelTensors& model, std::int64_t batch, const float* x,
                                    bool training) {
  batch_ = batch;
  // The shortcut first: the last unit of the path adds it within its norm, in one pass.
  const float* residual = x;
  if (shortcut_) {
    residual =
        shortcut_->forward(model, {.batch = batch, .x = x, .relu = false, .training = training});
  }
  const float* y = x;
  for (auto& unit : path_) {
    const bool last = &unit == &path_.back();
    y = unit.forward(
        model,
        {.batch = batch, .x = y, .residual = last ? residual : nullptr, .training = training});
  }
  return y;
}

void ResidualBlock::backward(const ModelTensors& model, const BackwardScratch& scratch,
                             const GradientReady& ready) {
  // The last unit leaves the residual's gradient in scratch.gradient.
  const float* from_path = scratch.inside;
  float* gradient = scratch.gradient;
  for (auto unit = path_.rbegin(); unit != path_.rend(); ++unit) {
    unit->backward(model, gradient, scratch.conv, scratch.inside, ready);
    gradient = scratch.inside;
  }
  // The residual's gradient goes through the shortcut in place, and joins that of the path.
  if (shortcut_) {
    shortcut_->backward(model, scratch.gradient, scratch.conv, scratch.gradient, ready);
  }
  add_to(scratch.gradient, from_path, batch_ * path_.front().input_size());
}

}  // namespace ddp
