// The tiles of a head that a block goes over, in stages: while it works on one, the next is copied.
#pragma once

#include "trainer/layers/cuda/head.cuh"

namespace ddp::gpu {

/// Of tiles that are used together: one is copied while the next is multiplied with, and the one
/// before still is.
inline constexpr unsigned kStages = 3;

template <class Real, int size>
struct TilePairs {
  Real of[kStages][2][kTileReals<size>];
};

/// A block's own rows, where they lie in memory (OwnRows): two tiles behind all others.
template <class Real, int size, class Tiles>
__device__ Real* own_tile(Tiles& tiles, unsigned which) {
  static_assert(sizeof(Tiles) % 1024 == 0);
  return reinterpret_cast<Real*>(&tiles + 1) + which * kTileReals<size>;
}
template <class Real, int size>
std::size_t own_tiles_bytes(int device) {
  int major = 0;
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  return major == 9 ? 2 * sizeof(Real) * kTileReals<size> : 0;  // elsewhere they are registers
}

/// The whole block goes over the rows [first, end), tile by tile, each in parts of so many rows.
/// `begin(tile, stage)` begins to copy a tile. Of each part `queue(tile, stage, row)` queues the
/// scores, and `finish(tile, stage, row)` what is multiplied with them, when they are there: after
/// `wait()`, which waits for all that is queued.
template <unsigned part, class Begin, class Queue, class Finish, class Wait>
__device__ void for_each_part(unsigned first, unsigned end, const Begin& begin, const Queue& queue,
                              const Finish& finish, const Wait& wait) {
  const auto after = [](unsigned stage) { return stage + 1 == kStages ? 0 : stage + 1; };
  // The tile that was begun is there, and all have done with the one before the last.
  const auto arrive = [&](unsigned tile, unsigned stage) {
    wait_for_copies();
    __syncthreads();
    if (tile + kTileRows < end) {
      begin(tile + kTileRows, after(stage));
    }
  };
  unsigned stage = 0;
  begin(first, stage);
  arrive(first, stage);
  queue(first, stage, 0U);
  wait();
  for (unsigned tile = first; tile < end; tile += kTileRows, stage = after(stage)) {
#pragma unroll
    for (unsigned row = 0; row < kTileRows; row += part) {
      finish(tile, stage, row);
      if (row + part < kTileRows) {
        queue(tile, stage, row + part);
      } else if (tile + kTileRows < end) {
        arrive(tile + kTileRows, after(stage));
        queue(tile + kTileRows, after(stage), 0U);
      }
      wait();
    }
  }
}

/// The keys and values of one head in shared memory.
template <class Real, int size, unsigned threads>
struct KeyTiles {
  const Head& head;
  HeadRows<const Real> keys, values;
  TilePairs<Real, size>& tiles;

  __device__ KeyTiles(const Head& of, const Real* qkv)
      : head(of),
        keys(of.in_qkv(qkv, 1)),
        values(of.in_qkv(qkv, 2)),
        tiles(*shared_memory<TilePairs<Real, size>>()) {}
  __device__ void begin(unsigned key, unsigned stage) const {
    begin_tile<size, threads>(head, keys, key, tiles.of[stage][0]);
    begin_tile<size, threads>(head, values, key, tiles.of[stage][1]);
  }
};

}  // namespace ddp::gpu
