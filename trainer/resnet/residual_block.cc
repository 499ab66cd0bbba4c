#include "trainer/resnet/residual_block.h"

#include <algorithm>

namespace ddp {
namespace {

constexpr std::int64_t kExpansion = 4;  ///< of a bottleneck's last convolution

}  // namespace

/// He et al. 2016, figure 5, with the stride in the 3 x 3 convolution, as torchvision has it. A
/// shortcut with weights is there only where the shapes differ (their option B). Its tensors come
/// before those of the path: backward() completes them after the path's, and data parallelism takes
/// the reverse of this order for that of backward. So the first step after a resume has the buckets
/// of every other step, and NCCL, which adds by place, gives the same bits.
template <class Real>
ResidualBlockOf<Real>::ResidualBlockOf(ModelTensors& model, const std::string& name,
                                       const BlockShape& shape, Device device) {
  const auto out_channels = shape.bottleneck ? shape.width * kExpansion : shape.width;
  if (shape.stride != 1 || out_channels != shape.in_channels) {
    shortcut_.emplace(
        model, name + ".downsample.0", name + ".downsample.1",
        Conv2dShape{shape.in_channels, out_channels, shape.side, shape.side, 1, shape.stride, 0},
        device);
  }
  auto channels = shape.in_channels;
  auto side = shape.side;
  const auto add = [&](std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const auto number = std::to_string(path_.size() + 1);
    path_.emplace_back(model, name + ".conv" + number, name + ".bn" + number,
                       Conv2dShape{channels, out, side, side, kernel, stride, kernel / 2}, device);
    channels = out;
    side = path_.back().shape().out_height();
  };
  if (shape.bottleneck) {
    add(shape.width, 1, 1);
    add(shape.width, 3, shape.stride);
    add(out_channels, 1, 1);
  } else {
    add(shape.width, 3, shape.stride);
    add(out_channels, 3, 1);
  }
}

template <class Real>
std::int64_t ResidualBlockOf<Real>::out_channels() const {
  return path_.back().shape().out_channels;
}

template <class Real>
std::int64_t ResidualBlockOf<Real>::out_side() const {
  return path_.back().shape().out_height();
}

/// One scratch of this size serves every unit of the block in turn.
template <class Real>
std::int64_t ResidualBlockOf<Real>::largest() const {
  std::int64_t largest = 0;
  for (const auto& unit : path_) {
    largest = std::max({largest, unit.input_size(), unit.output_size()});
  }
  return largest;
}

template <class Real>
const Real* ResidualBlockOf<Real>::forward(const ModelTensors& model, std::int64_t batch,
                                           const Real* x, bool training) {
  // The shortcut first: the last unit of the path adds it within its norm, in one pass.
  const Real* residual = x;
  if (shortcut_) {
    residual =
        shortcut_->forward(model, {.batch = batch, .x = x, .relu = false, .training = training});
  }
  const Real* y = x;
  for (auto& unit : path_) {
    const bool last = &unit == &path_.back();
    y = unit.forward(
        model,
        {.batch = batch, .x = y, .residual = last ? residual : nullptr, .training = training});
  }
  return y;
}

template <class Real>
void ResidualBlockOf<Real>::backward(const ModelTensors& model,
                                     const BackwardScratch<Real>& scratch, const Real* d_more,
                                     const GradientReady& ready) {
  // The last unit leaves the residual's gradient in scratch.gradient.
  Real* gradient = scratch.gradient;
  for (auto unit = path_.rbegin(); unit != path_.rend(); ++unit) {
    unit->backward(model,
                   {.d_y = gradient, .d_more = d_more, .d_z = scratch.conv, .d_x = scratch.inside},
                   ready);
    gradient = scratch.inside;
    d_more = nullptr;
  }
  // The residual's gradient goes through the shortcut in place. Nobody adds it to that of the path
  // here: that would be one more pass over both.
  if (shortcut_) {
    shortcut_->backward(
        model, {.d_y = scratch.gradient, .d_z = scratch.conv, .d_x = scratch.gradient}, ready);
  }
}

template class ResidualBlockOf<float>;
template class ResidualBlockOf<BFloat16>;

}  // namespace ddp
