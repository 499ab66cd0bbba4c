// WeightPanels: the weights of a convolution as Winograd's products read them (winograd.h), and the
// way back for their gradient. The nine weights of a pair of channels lie together in memory, and
// vectors run over channels: so blocks of them are turned.
#pragma once

#include <cstddef>

#include "trainer/layers/team.h"
#include "trainer/layers/winograd.h"
#include "trainer/layers/winograd_transforms.h"

namespace ddp::DDP_LEVEL {

inline constexpr std::size_t kKernel = 9;  ///< weights of a pair of channels
inline constexpr std::size_t kTurned = 8;  ///< rows and columns that are turned at a time
using TurnedRow = float __attribute__((vector_size(kTurned * sizeof(float))));

/// From and to memory that is aligned to a float only.
inline __attribute__((always_inline)) TurnedRow load_row(const float* from) {
  TurnedRow row;
  __builtin_memcpy(&row, from, sizeof(row));
  return row;
}
template <bool add>
inline __attribute__((always_inline)) void store_row(float* to, TurnedRow row) {
  const TurnedRow sum = add ? load_row(to) + row : row;
  __builtin_memcpy(to, &sum, sizeof(sum));
}

/// Writes the 8 columns of 8 rows that are `stride` floats apart, each as a row at to(column), or
/// adds it to what is there.
template <bool add = false, class To>
inline __attribute__((always_inline)) void turn(const float* from, std::size_t stride,
                                                const To& to) {
  TurnedRow rows[kTurned], pairs[kTurned], fours[kTurned];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kTurned; ++i) {
    rows[i] = load_row(from + i * stride);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kTurned; i += 2) {
    pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t first = i / 2 * 4 + i % 2;
    const TurnedRow left = pairs[first], right = pairs[first + 2];
    fours[i * 2] = __builtin_shufflevector(left, right, 0, 1, 8, 9, 4, 5, 12, 13);
    fours[i * 2 + 1] = __builtin_shufflevector(left, right, 2, 3, 10, 11, 6, 7, 14, 15);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const TurnedRow left = fours[i], right = fours[i + 4];
    const TurnedRow above = __builtin_shufflevector(left, right, 0, 1, 2, 3, 8, 9, 10, 11);
    const TurnedRow below = __builtin_shufflevector(left, right, 4, 5, 6, 7, 12, 13, 14, 15);
    store_row<add>(to(i), above);
    store_row<add>(to(i + 4), below);
  }
}

/// U[place][panel][depth][kTileColumns]: a panel for each kTileColumns channels of the result, and
/// in it channel by channel of what goes in.
class WeightPanels {
 public:
  explicit WeightPanels(const WinogradForward& pass) : pass_(pass) {}

  void make() const {
    share_out(pass_.shape.out_channels / kTileColumns, 1,
              [&](std::size_t first, std::size_t end, std::size_t) {
                for (std::size_t panel = first; panel < end; ++panel) {
                  for (std::size_t depth = 0; depth < pass_.shape.in_channels; depth += kDepth) {
                    make_part(panel, depth);
                  }
                }
              });
  }

 private:
  static constexpr std::size_t kDepth = 16;
  using Part = float[kDepth * kKernel][kTileColumns];

  void make_part(std::size_t panel, std::size_t depth) const {
    alignas(64) Part part;
    if (pass_.of_gradient) {
      turn_gradient(panel, depth, part);
    } else {
      turn_forward(panel, depth, part);
    }
    float* to = pass_.scratch + (panel * pass_.shape.in_channels + depth) * kTileColumns;
    const std::size_t plane = pass_.parts.weight_plane;
    for (std::size_t d = 0; d < kDepth; ++d, to += kTileColumns) {
      for (std::size_t lane = 0; lane < kTileColumns; lane += kLanes) {
        transform_weight(
            [&](std::size_t i, std::size_t j) {
              return load_vector(&part[d * kKernel + i * 3 + j][lane]);
            },
            [&](std::size_t i, std::size_t j, Vector u) {
              store_vector(to + (i * 4 + j) * plane + lane, u);
            });
      }
    }
  }

  /// Of the weights (K, C, 3, 3): of each channel of the result kDepth kernels in a row.
  void turn_forward(std::size_t panel, std::size_t depth, Part& part) const {
    const std::size_t stride = pass_.shape.in_channels * kKernel;
    const float* from = pass_.weight + panel * kTileColumns * stride + depth * kKernel;
    for (std::size_t lane = 0; lane < kTileColumns; lane += kTurned) {
      for (std::size_t i = 0; i < kDepth * kKernel; i += kTurned) {
        turn(from + lane * stride + i, stride,
             [&](std::size_t column) { return &part[i + column][lane]; });
      }
    }
  }

  /// What comes out is d_x: of each channel that goes in the kernels of a panel in a row. They are
  /// turned around, the last weight first.
  void turn_gradient(std::size_t panel, std::size_t depth, Part& part) const {
    const std::size_t stride = pass_.shape.out_channels * kKernel;
    const float* from = pass_.weight + depth * stride + panel * kTileColumns * kKernel;
    for (std::size_t d = 0; d < kDepth; ++d, from += stride) {
      float(*kernels)[kTileColumns] = &part[d * kKernel];
      for (std::size_t lane = 0; lane < kTileColumns; lane += kTurned) {
        turn(from + lane * kKernel, kKernel,
             [&](std::size_t column) { return &kernels[kKernel - 1 - column][lane]; });
      }
      for (std::size_t lane = 0; lane < kTileColumns; ++lane) {
        kernels[0][lane] = from[lane * kKernel + kKernel - 1];
      }
    }
  }

  const WinogradForward& pass_;
};

/// Adds G^T u G to the kernels to channel k of the result; u is the total of all partial sums.
inline __attribute__((always_inline)) void add_kernels(const WinogradWeights& pass, std::size_t k) {
  const std::size_t channels = pass.shape.in_channels;
  float* to = pass.d_weight + k * channels * kKernel;
  for (std::size_t c = 0; c < channels; c += kTileColumns) {
    alignas(64) float kernels[kKernel][kTileColumns];
    for (std::size_t lane = 0; lane < kTileColumns; lane += kLanes) {
      transform_weight_gradient(
          [&](std::size_t i, std::size_t j) {
            const float* from =
                pass.scratch + (i * 4 + j) * pass.parts.weight_plane + k * channels + c + lane;
            Vector total = load_vector(from);
            for (std::size_t sum = 1; sum < pass.parts.sums; ++sum) {
              total += load_vector(from + sum * pass.parts.weights());
            }
            return total;
          },
          [&](std::size_t i, std::size_t j, Vector g) {
            store_vector(&kernels[i * 3 + j][lane], g);
          });
    }
    for (std::size_t lane = 0; lane < kTileColumns; lane += kTurned) {
      turn<true>(&kernels[0][lane], kTileColumns,
                 [&](std::size_t column) { return to + (c + lane + column) * kKernel; });
    }
    for (std::size_t lane = 0; lane < kTileColumns; ++lane) {
      to[(c + lane) * kKernel + kKernel - 1] += kernels[kKernel - 1][lane];
    }
  }
}

}  // namespace ddp::DDP_LEVEL
