#include "trainer/layers/winograd.h"

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/team.h"
#include "trainer/layers/tile.h"
#include "trainer/layers/winograd_panels.h"
#include "trainer/layers/winograd_transforms.h"

namespace ddp::DDP_LEVEL {
namespace {

/// Channels of a panel: what one tile of a product takes of them.
constexpr std::size_t kWidth = kTileColumns;

constexpr std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

/// Where a tile lies in its image.
struct Place {
  std::size_t image, row, column;  ///< of the first pixel of the result

  Place(const WinogradShape& shape, std::size_t tile) {
    const std::size_t across = (shape.width + 1) / 2;
    const std::size_t down = (shape.height + 1) / 2;
    image = tile / (across * down);
    row = tile / across % down * 2;
    column = tile % across * 2;
  }
};

/// The pixels of a tile, `size` x `size` of them, of which the first is `before` rows and columns
/// before the tile's place; `outside` for those that the image does not have.
template <std::size_t size, std::size_t before, class Real>
inline __attribute__((always_inline)) void find_pixels(const WinogradShape& shape, const Place& at,
                                                       Real* images, std::size_t channels,
                                                       Real* outside, Real* (&pixels)[size][size]) {
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      // Before the first row or column it wraps around, to more than any image has.
      const std::size_t row = at.row + i - before;
      const std::size_t column = at.column + j - before;
      pixels[i][j] =
          row < shape.height && column < shape.width
              ? images + ((at.image * shape.height + row) * shape.width + column) * channels
              : outside;
    }
  }
}

/// B^T d B of one tile, from pixels of `channels` floats; `to(channel)` is where a vector of the
/// first plane goes.
template <class To>
inline __attribute__((always_inline)) void transform_pixels(const float* (&pixels)[4][4],
                                                            std::size_t channels, std::size_t plane,
                                                            const To& to) {
  for (std::size_t c = 0; c < channels; c += kLanes) {
    float* first = to(c);
    transform_input([&](std::size_t i, std::size_t j) { return load_vector(pixels[i][j] + c); },
                    [&](std::size_t i, std::size_t j, Vector v) {
                      store_vector(first + (i * 4 + j) * plane, v);
                    });
  }
}

/// A part of the tiles, of one thread.
class ForwardBlock {
 public:
  ForwardBlock(const WinogradForward& pass, std::size_t thread)
      : pass_(pass),
        shape_(pass.shape),
        parts_(pass.parts),
        in_(pass.scratch + parts_.weights() + thread * parts_.blocks()),
        out_(in_ + kWinogradPlaces * parts_.in_plane),
        outside_(out_ + kWinogradPlaces * parts_.out_plane) {}

  void compute(std::size_t first, std::size_t count) const {
    take_in(first, count);
    for (std::size_t place = 0; place < kWinogradPlaces; ++place) {
      multiply(place, count);
    }
    give_out(first, count);
  }

 private:
  void take_in(std::size_t first, std::size_t count) const {
    for (std::size_t c = 0; c < shape_.in_channels; ++c) {
      outside_[c] = 0;
    }
    for (std::size_t t = 0; t < count; ++t) {
      const float* pixels[4][4];
      find_pixels<4, 1, const float>(shape_, Place(shape_, first + t), pass_.in, shape_.in_channels,
                                     outside_, pixels);
      transform_pixels(pixels, shape_.in_channels, parts_.in_plane,
                       [&](std::size_t c) { return in_ + t * shape_.in_channels + c; });
    }
  }

  /// Panel by panel of U, which stays in the first-level cache while all rows of V go by.
  void multiply(std::size_t place, std::size_t count) const {
    const float* in = in_ + place * parts_.in_plane;
    const float* weight = pass_.scratch + place * parts_.weight_plane;
    float* out = out_ + place * parts_.out_plane;
    for (std::size_t panel = 0; panel < shape_.out_channels / kWidth; ++panel) {
      for (std::size_t t = 0; t < count; t += kTileRows) {
        compute_tile({.a = in + t * shape_.in_channels,
                      .a_row = shape_.in_channels,
                      .a_step = 1,
                      .b = weight,
                      .b_step = kWidth,
                      .out = out + t * kWidth,
                      .out_row = kWidth,
                      .k = shape_.in_channels},
                     smaller(kTileRows, count - t));
      }
      weight += shape_.in_channels * kWidth;
      out += parts_.block * kWidth;
    }
  }

  void give_out(std::size_t first, std::size_t count) const {
    for (std::size_t t = 0; t < count; ++t) {
      float* pixels[2][2];
      find_pixels<2, 0, float>(shape_, Place(shape_, first + t), pass_.out, shape_.out_channels,
                               outside_, pixels);
      const float* from = out_ + t * kWidth;
      for (std::size_t panel = 0; panel < shape_.out_channels; panel += kWidth) {
        for (std::size_t lane = 0; lane < kWidth; lane += kLanes) {
          transform_output(
              [&](std::size_t i, std::size_t j) {
                return load_vector(from + (i * 4 + j) * parts_.out_plane + lane);
              },
              [&](std::size_t i, std::size_t j, Vector y) {
                store_vector(pixels[i][j] + panel + lane, y);
              });
        }
        from += parts_.block * kWidth;
      }
    }
  }

  const WinogradForward& pass_;
  const WinogradShape& shape_;
  const WinogradScratch& parts_;
  float *in_, *out_, *outside_;
};

/// One of the partial sums of the weights' gradient: of a part of the tiles, block by block.
class GradientSum {
 public:
  GradientSum(const WinogradWeights& pass, std::size_t sum, std::size_t thread)
      : pass_(pass),
        shape_(pass.shape),
        parts_(pass.parts),
        sum_(sum),
        sums_(pass.scratch + sum * parts_.weights()),
        x_(pass.scratch + parts_.sums * parts_.weights() + thread * parts_.blocks()),
        d_y_(x_ + kWinogradPlaces * parts_.in_plane),
        outside_(d_y_ + kWinogradPlaces * parts_.out_plane) {}

  /// `share`: share_out(), or what calls its body for all that there is. Of each block V and
  /// A d_y A^T come first, and then the products.
  template <class Share>
  void compute(const Share& share) const {
    for (std::size_t c = 0; c < parts_.outside; ++c) {
      outside_[c] = 0;
    }
    const std::size_t panels = shape_.in_channels / kWidth;
    const std::size_t begin = shape_.tiles() * sum_ / parts_.sums;
    const std::size_t end = shape_.tiles() * (sum_ + 1) / parts_.sums;
    for (std::size_t first = begin; first < end; first += parts_.block) {
      const std::size_t count = smaller(parts_.block, end - first);
      share(count, rows_worth_sharing(kWinogradPlaces * shape_.in_channels),
            [&](std::size_t from, std::size_t to, std::size_t) {
              for (std::size_t t = from; t < to; ++t) {
                take_in(t, Place(shape_, first + t));
              }
            });
      share(kWinogradPlaces * panels, std::size_t{1},
            [&](std::size_t from, std::size_t to, std::size_t) {
              for (std::size_t i = from; i < to; ++i) {
                multiply(i / panels, i % panels * kWidth, count, first > begin);
              }
            });
    }
  }

 private:
  /// Of V and A d_y A^T: a panel for each kWidth channels, and in it tile by tile.
  [[nodiscard]] std::size_t at(std::size_t tile, std::size_t channel) const {
    return (channel / kWidth * parts_.block + tile) * kWidth + channel % kWidth;
  }

  void take_in(std::size_t t, const Place& place) const {
    const float* pixels[4][4];
    find_pixels<4, 1, const float>(shape_, place, pass_.x, shape_.in_channels, outside_, pixels);
    transform_pixels(pixels, shape_.in_channels, parts_.in_plane,
                     [&](std::size_t c) { return x_ + at(t, c); });
    const float* results[2][2];
    find_pixels<2, 0, const float>(shape_, place, pass_.d_y, shape_.out_channels, outside_,
                                   results);
    for (std::size_t k = 0; k < shape_.out_channels; k += kLanes) {
      float* to = d_y_ + at(t, k);
      transform_gradient(
          [&](std::size_t i, std::size_t j) { return load_vector(results[i][j] + k); },
          [&](std::size_t i, std::size_t j, Vector m) {
            store_vector(to + (i * 4 + j) * parts_.out_plane, m);
          });
    }
  }

  /// (K, a panel of C) of (K, tiles) and (tiles, a panel of C). kWidth is no multiple of a
  /// tile's rows: the last tile of a panel has fewer, which costs less than another layout would.
  void multiply(std::size_t place, std::size_t c, std::size_t count, bool add) const {
    const float* x = x_ + place * parts_.in_plane + at(0, c);
    const float* d_y = d_y_ + place * parts_.out_plane;
    float* sums = sums_ + place * parts_.weight_plane + c;
    for (std::size_t panel = 0; panel < shape_.out_channels; panel += kWidth) {
      for (std::size_t k = 0; k < kWidth; k += kTileRows) {
        compute_tile({.a = d_y + at(0, panel + k),
                      .a_row = 1,
                      .a_step = kWidth,
                      .b = x,
                      .b_step = kWidth,
                      .out = sums + (panel + k) * shape_.in_channels,
                      .out_row = shape_.in_channels,
                      .k = count,
                      .add = add},
                     smaller(kTileRows, kWidth - k));
      }
    }
  }

  const WinogradWeights& pass_;
  const WinogradShape& shape_;
  const WinogradScratch& parts_;
  std::size_t sum_;
  float *sums_, *x_, *d_y_, *outside_;
};

}  // namespace

/// Blocks are for the cache alone: a tile is computed the same in any, and by any thread.
void winograd_forward(const WinogradForward& pass, int /*device*/) {
  WeightPanels(pass).make();
  const std::size_t tiles = pass.shape.tiles();
  const auto compute = [&](std::size_t first, std::size_t end, std::size_t thread) {
    const ForwardBlock block(pass, thread);
    for (; first < end; first += pass.parts.block) {
      block.compute(first, smaller(pass.parts.block, end - first));
    }
  };
  if (pass.threads >= team_size()) {
    share_out(tiles, kTileRows, compute);
  } else {
    compute(0, tiles, 0);
  }
}

/// Each thread makes some of the partial sums; or with more threads than sums all of them make one
/// after the other, meeting twice a block. The bits are the same.
void winograd_weights(const WinogradWeights& pass, int /*device*/) {
  const WinogradShape& shape = pass.shape;
  if (shape.tiles() == 0) {  // no sums would be written
    return;
  }
  if (pass.threads >= team_size()) {
    share_out(pass.parts.sums, 1, [&](std::size_t first, std::size_t end, std::size_t thread) {
      for (; first < end; ++first) {
        GradientSum(pass, first, thread)
            .compute([](std::size_t count, std::size_t, const auto& body) { body(0, count, 0); });
      }
    });
  } else {
    for (std::size_t sum = 0; sum < pass.parts.sums; ++sum) {
      GradientSum(pass, sum, 0).compute([](std::size_t count, std::size_t grain, const auto& body) {
        share_out(count, grain, body);
      });
    }
  }
  share_out(shape.out_channels, rows_worth_sharing(kWinogradPlaces * shape.in_channels),
            [&](std::size_t first, std::size_t end, std::size_t) {
              for (std::size_t k = first; k < end; ++k) {
                add_kernels(pass, k);
              }
            });
}

}  // namespace ddp::DDP_LEVEL
