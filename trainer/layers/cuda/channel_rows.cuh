// What walks over matrices of many rows and few columns, as batch normalisation does (images x
// pixels of some hundred channels): each thread keeps a pack of neighbouring channels, whose
// coefficients then stay in registers, and goes from row to row.
#pragma once

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/pack.cuh"

namespace ddp::gpu {

/// Threads side by side: with packs of 16 bytes they read 128 of a row, which memory moves at once.
inline constexpr unsigned kSideThreads = 8;
/// Rows that a block reads at a time.
inline constexpr unsigned kBlockRows = kThreads / kSideThreads;
/// Rows of a thread that are read before the first is used: else each would be waited for.
inline constexpr unsigned kRowsAhead = 4;
/// Eight blocks for each multiprocessor of an H100, as many as it has room for.
inline constexpr unsigned kWalkingBlocks = 8 * 132;

/// The channels from which on this thread works.
template <int width>
__device__ std::size_t my_channel() {
  const std::size_t side = threadIdx.x % kSideThreads;
  return (static_cast<std::size_t>(blockIdx.x) * kSideThreads + side) * width;
}

/// Which end of the matrix comes first. A pass that begins where the one before it has ended finds
/// there, in the device's cache, what that one has read or written last. Convolutions go up, sums
/// go down, and what follows the sums goes up.
enum class Walk { up, down };

/// Calls read(row) for some rows of this thread's, and then use(row, what was read) for each.
template <Walk walk, class Read, class Use>
__device__ void walk_rows(std::size_t rows, const Read& read, const Use& use) {
  const std::size_t stride = static_cast<std::size_t>(gridDim.y) * kBlockRows;
  const std::size_t first = blockIdx.y * kBlockRows + threadIdx.x / kSideThreads;
  const auto place = [rows](std::size_t row) { return walk == Walk::up ? row : rows - 1 - row; };
  for (std::size_t row = first; row < rows; row += kRowsAhead * stride) {
    decltype(read(row)) ahead[kRowsAhead];
#pragma unroll
    for (unsigned i = 0; i < kRowsAhead; ++i) {
      ahead[i] = read(place(row + i * stride < rows ? row + i * stride : row));
    }
#pragma unroll
    for (unsigned i = 0; i < kRowsAhead; ++i) {
      if (row + i * stride < rows) {
        use(place(row + i * stride), ahead[i]);
      }
    }
  }
}

/// Blocks beside each other for the channels, and below each other for parts of the rows.
template <int width>
Grid walking_grid(std::size_t rows, std::size_t channels, unsigned blocks = kWalkingBlocks) {
  const unsigned beside = blocks_of(channels, std::size_t{kSideThreads} * width);
  const unsigned most = blocks_of(rows, std::size_t{kRowsAhead} * kBlockRows);
  return {{beside, std::min(std::max(1U, blocks / beside), most), 1}};
}

/// Two sums for each of a thread's channels.
template <int width>
struct TwoSums {
  float of[2][width];
};

/// Adds the sums up over the block's rows, in a fixed order. Part y of the rows goes to parts (2,
/// gridDim.y, channels). All threads of the block.
template <int width>
__device__ void store_sums(TwoSums<width> sums, std::size_t channels, float* parts) {
  constexpr unsigned kColumns = kSideThreads * width;
  constexpr unsigned kWarps = kThreads / kWarpSize;
  auto* by_warp = shared_memory<float>();  // (2, kWarps, kColumns)
  const unsigned side = threadIdx.x % kSideThreads;
  for (int k = 0; k < 2; ++k) {
    for (int j = 0; j < width; ++j) {
      float sum = sums.of[k][j];
      for (int lanes = kWarpSize / 2; lanes >= static_cast<int>(kSideThreads); lanes /= 2) {
        sum += __shfl_xor_sync(0xffffffffU, sum, lanes);
      }
      if (lane_index() < kSideThreads) {
        by_warp[(k * kWarps + warp_index()) * kColumns + side * width + j] = sum;
      }
    }
  }
  __syncthreads();
  const std::size_t channel = static_cast<std::size_t>(blockIdx.x) * kColumns + threadIdx.x;
  if (threadIdx.x < kColumns && channel < channels) {
    for (int k = 0; k < 2; ++k) {
      float sum = 0;
      for (unsigned warp = 0; warp < kWarps; ++warp) {
        sum += by_warp[(k * kWarps + warp) * kColumns + threadIdx.x];
      }
      parts[(static_cast<std::size_t>(k) * gridDim.y + blockIdx.y) * channels + channel] = sum;
    }
  }
}

template <int width>
constexpr std::size_t kSumsBytes = sizeof(float) * 2 * (kThreads / kWarpSize) * kSideThreads* width;

/// The two sums of a channel over all parts, in doubles.
struct ChannelSums {
  double first = 0, second = 0;
};

/// Each lane of the warp gets them. Both at once, and some parts at a time: nearly all of this is
/// waiting for memory.
__device__ inline ChannelSums sums_of_parts(const float* parts, unsigned count,
                                            std::size_t channels, std::size_t channel) {
  ChannelSums sums;
  const float* second = parts + static_cast<std::size_t>(count) * channels;
#pragma unroll 8
  for (unsigned part = lane_index(); part < count; part += kWarpSize) {
    const std::size_t at = part * channels + channel;
    sums.first += static_cast<double>(parts[at]);
    sums.second += static_cast<double>(second[at]);
  }
  return {warp_sum(sums.first), warp_sum(sums.second)};
}

}  // namespace ddp::gpu
