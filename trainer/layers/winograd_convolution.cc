#include "trainer/layers/winograd_convolution.h"

#include <algorithm>
#include <utility>

#include "ddp/error.h"
#include "trainer/layers/alignment.h"

namespace ddp {
namespace {

/// V and M of a block stay in the caches until they are used: of few channels in the second level,
/// of 512 in the third, since with fewer tiles the weights would be read too often. Measured on a
/// Zen 3, with 512 KiB and 32 MiB; half and twice as much cost up to a fifth.
struct BlockSize {
  std::size_t floats = 0;
  std::size_t tiles_least = 0;
};
constexpr BlockSize kForwardBlock{std::size_t{192} * 1024, 96};
/// The sums of the weights' gradient are read and written once a block: these are larger.
constexpr BlockSize kWeightsBlock{std::size_t{384} * 1024, 192};
/// Of every level's rows of a tile of a product.
constexpr std::size_t kTilesMultiple = 12;

/// For `threads` that share out the tiles: with many of them each has few, and needs little memory.
WinogradScratch divided(const WinogradShape& shape, const BlockSize& size, std::size_t threads) {
  constexpr std::size_t kLine = 16;
  const std::size_t channels = shape.in_channels + shape.out_channels;
  const std::size_t share = (shape.tiles() / threads / kTilesMultiple + 1) * kTilesMultiple;
  WinogradScratch parts;
  parts.block =
      std::min(share, std::max(size.tiles_least, size.floats / (kWinogradPlaces * channels)));
  parts.in_plane = parts.block * shape.in_channels + kLine;
  parts.out_plane = parts.block * shape.out_channels + kLine;
  parts.outside = std::max(shape.in_channels, shape.out_channels);
  parts.weight_plane = shape.in_channels * shape.out_channels + kLine;
  return parts;
}

/// Of the weights' gradient: as many as have two blocks each and take 8 MiB, or a little more, as
/// planes are longer than a power of 2. Their number is one, so that threads have equal shares.
std::size_t partial_sums(const WinogradShape& shape, const WinogradScratch& parts) {
  constexpr std::size_t kMost = 16;
  constexpr std::size_t kFloats = std::size_t{2} * 1024 * 1024;
  std::size_t sums = 1;
  while (2 * sums <= kMost && 2 * sums * parts.weights() <= kFloats + kFloats / 64 &&
         4 * sums * parts.block <= shape.tiles()) {
    sums *= 2;
  }
  return sums;
}

}  // namespace

bool suits_winograd(const Conv2dShape& shape) {
  constexpr auto kChannels = static_cast<std::int64_t>(kWinogradChannels);
  return shape.kernel == 3 && shape.stride == 1 && shape.padding == 1 &&
         shape.in_channels % kChannels == 0 && shape.out_channels % kChannels == 0;
}

WinogradConvolution::WinogradConvolution(const Conv2dShape& shape, const Layers& layers)
    : shape_(shape), layers_(&layers) {
  if (!suits_winograd(shape)) {
    throw InvalidArgument(
        "Winograd's algorithm is for kernel 3, stride 1, padding 1 and multiples of 32 channels; "
        "Conv2d does other convolutions");
  }
}

WinogradShape WinogradConvolution::winograd_shape(std::int64_t batch) const {
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  return {size(batch), size(shape_.height), size(shape_.width), size(shape_.in_channels),
          size(shape_.out_channels)};
}

float* WinogradConvolution::scratch(std::size_t floats) {
  const std::size_t lines = aligned_floats(floats) / (sizeof(Line) / sizeof(float));
  if (scratch_.size() < lines) {
    scratch_.resize(lines);
  }
  return scratch_.front().floats;
}

void WinogradConvolution::forward(std::int64_t batch, const float* x, const float* weight,
                                  float* y) {
  WinogradForward pass;
  pass.shape = winograd_shape(batch);
  pass.in = x;
  pass.weight = weight;
  pass.out = y;
  run(pass);
}

/// The same with x and y in each other's place: stride 1 and padding 1 keep the size of images.
void WinogradConvolution::backward_data(std::int64_t batch, const float* d_y, const float* weight,
                                        float* d_x) {
  WinogradForward pass;
  pass.shape = winograd_shape(batch);
  std::swap(pass.shape.in_channels, pass.shape.out_channels);
  pass.in = d_y;
  pass.weight = weight;
  pass.out = d_x;
  pass.of_gradient = true;
  run(pass);
}

void WinogradConvolution::backward_weights(std::int64_t batch, const float* x, const float* d_y,
                                           float* d_weight) {
  WinogradWeights pass;
  pass.shape = winograd_shape(batch);
  pass.x = x;
  pass.d_y = d_y;
  pass.d_weight = d_weight;
  pass.parts = divided(pass.shape, kWeightsBlock, 1);
  pass.parts.sums = partial_sums(pass.shape, pass.parts);
  const std::size_t threads = cpu_layer_threads();
  pass.threads = threads <= pass.parts.sums ? threads : 1;
  pass.scratch =
      scratch(pass.parts.sums * pass.parts.weights() + pass.threads * pass.parts.blocks());
  layers_->winograd_weights(pass, 0);
}

void WinogradConvolution::run(WinogradForward& pass) {
  pass.threads = cpu_layer_threads();
  pass.parts = divided(pass.shape, kForwardBlock, pass.threads);
  pass.scratch = scratch(pass.parts.weights() + pass.threads * pass.parts.blocks());
  layers_->winograd_forward(pass, 0);
}

}  // namespace ddp
