// In place of the trainer's header of this name: what its instructions do, as each lane's part of
// it. What a warp does together waits for all of its lanes.
#pragma once

#include <cstdio>
#include <vector>

#include "trainer/layers/cuda/fragments.cuh"

namespace ddp::gpu {

inline constexpr bool kWarpgroups = false;

template <class Real>
Pair<Real> rounded_pair(float low, float high) {
  return pair_of(rounded<Real>(low), rounded<Real>(high));
}

inline float power_of_two(float x) {
  return std::exp2(x);
}

/// What each lane of each warp multiplies.
template <class Real>
struct Shown {
  const Left<Real>* left;
  const Right<Real>* right;
};

template <class Real>
void multiply_add(const Left<Real>& left, const Right<Real>& right, Sums& sums) {
  static Shown<Real> shown[32][kWarpSize];  // one block runs at a time
  auto& warp = shown[warp_index()];
  warp[lane_index()] = {&left, &right};
  __syncwarp();
  const auto at = [](const Pair<Real>& pair, unsigned k) {
    return k % 2 == 0 ? low_of(pair) : high_of(pair);
  };
  for (unsigned k = 0; k < kTile; ++k) {
    for (unsigned i = 0; i < 4; ++i) {
      const Left<Real>& row = *warp[fragment_row() * 4 + k % 8 / 2].left;
      const Right<Real>& column = *warp[(fragment_column() + i % 2) * 4 + k % 8 / 2].right;
      sums.of[i] += at(row.of[k / 8 * 2 + i / 2], k) * at(column.of[k / 8], k);
    }
  }
  __syncwarp();  // nobody's factors go while others read them
}

inline void require_aligned(const void* place, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(place) % bytes != 0) {
    std::fprintf(stderr, "CUDA stand-in: a place in memory is no multiple of %zu bytes\n", bytes);
    std::abort();
  }
}

template <int columns, class Real>
void load_rights(const Real* tile, unsigned row, unsigned column, Right<Real> (&to)[2]) {
  const auto at = [&](unsigned r, unsigned c) {
    return tile[place_in_tile<columns, Real>(row + r, column + c)];
  };
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned r = fragment_column() + half * 8;
      const unsigned c = i * kColumns + fragment_row();
      to[i].of[half] = pair_of(at(r, c), at(r + 1, c));
    }
  }
}
template <int columns, class Real>
void load_rights_transposed(const Real* tile, unsigned row, unsigned column, Right<Real> (&to)[2]) {
  const auto at = [&](unsigned r, unsigned c) {
    return tile[place_in_tile<columns, Real>(row + r, column + c)];
  };
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned r = i * kColumns + fragment_row();
      const unsigned c = fragment_column() + half * 8;
      to[i].of[half] = pair_of(at(r, c), at(r, c + 1));
    }
  }
}

/// Copies that a thread has begun, up to its wait: until then NaNs are there, so that a result
/// shows who reads too early.
struct Copy {
  void* to;
  const void* from;  ///< null: zeros
  std::size_t bytes;
};
inline std::vector<Copy>& begun_copies() {
  static std::vector<Copy> begun[1024];  // one block runs at a time
  return begun[threadIdx.x];
}
template <int bytes>
void begin_copy(void* to, const void* from, bool there) {
  require_aligned(to, bytes);
  if (there) {
    require_aligned(from, bytes);
  }
  std::memset(to, 0xff, bytes);
  begun_copies().push_back({to, there ? from : nullptr, bytes});
}
inline void wait_for_copies() {
  for (const Copy& copy : begun_copies()) {
    if (copy.from != nullptr) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    } else {
      std::memset(copy.to, 0, copy.bytes);
    }
  }
  begun_copies().clear();
}

}  // namespace ddp::gpu
