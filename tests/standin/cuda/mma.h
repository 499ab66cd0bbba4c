// In place of CUDA's header of this name: the warp's matrix products of bf16 with sums in f32, as
// each lane's part of them. A lane holds half a row of the sums; CUDA does not say who holds what,
// so that nothing may depend on it. None of these waits for other lanes, since CUDA's do not order
// memory either: a missing __syncwarp() shows as a wrong result.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/standin/cuda/cuda_bf16.h"
#include "tests/standin/cuda/cuda_runtime.h"

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int m, int n, int k, class T, class Layout = void>
struct fragment;
template <class Layout>
struct fragment<matrix_a, 16, 16, 16, __nv_bfloat16, Layout> {
  float row[16];
};
template <class Layout>
struct fragment<matrix_b, 16, 16, 16, __nv_bfloat16, Layout> {
  float columns[16][8];
};
template <>
struct fragment<accumulator, 16, 16, 16, float, void> {
  float half_row[8];
};

/// CUDA Programming Guide, "Warp Matrix Functions": 256 bits, and rows of whole 128 bits.
inline void require_aligned(const void* data, unsigned stride, std::size_t size) {
  if (reinterpret_cast<std::uintptr_t>(data) % 32 != 0 || stride * size % 16 != 0) {
    std::fputs("CUDA stand-in: a matrix of the tensor cores is not aligned\n", stderr);
    std::abort();
  }
}
inline float widen(__nv_bfloat16 value) {
  const std::uint32_t bits = std::uint32_t{value.bits} << 16U;
  float wide = 0;
  std::memcpy(&wide, &bits, sizeof wide);
  return wide;
}
inline unsigned own_row() {
  return threadIdx.x % 32 / 2;
}
inline unsigned own_column() {
  return threadIdx.x % 2 * 8;
}

inline void load_matrix_sync(fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major>& to,
                             const __nv_bfloat16* from, unsigned stride) {
  require_aligned(from, stride, sizeof *from);
  for (unsigned k = 0; k < 16; ++k) {
    to.row[k] = widen(from[own_row() * stride + k]);
  }
}
inline void load_matrix_sync(fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major>& to,
                             const __nv_bfloat16* from, unsigned stride) {
  require_aligned(from, stride, sizeof *from);
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned i = 0; i < 8; ++i) {
      to.columns[k][i] = widen(from[k * stride + own_column() + i]);
    }
  }
}
inline void load_matrix_sync(fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major>& to,
                             const __nv_bfloat16* from, unsigned stride) {
  require_aligned(from, stride, sizeof *from);
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned i = 0; i < 8; ++i) {
      to.columns[k][i] = widen(from[(own_column() + i) * stride + k]);
    }
  }
}
inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& to, const float* from,
                             unsigned stride, layout_t) {
  require_aligned(from, stride, sizeof *from);
  for (unsigned i = 0; i < 8; ++i) {
    to.half_row[i] = from[own_row() * stride + own_column() + i];
  }
}
inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& from,
                              unsigned stride, layout_t) {
  require_aligned(to, stride, sizeof *to);
  for (unsigned i = 0; i < 8; ++i) {
    to[own_row() * stride + own_column() + i] = from.half_row[i];
  }
}
inline void fill_fragment(fragment<accumulator, 16, 16, 16, float>& to, float value) {
  for (float& sum : to.half_row) {
    sum = value;
  }
}
template <class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& to,
              const fragment<matrix_a, 16, 16, 16, __nv_bfloat16, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, __nv_bfloat16, LayoutB>& b,
              const fragment<accumulator, 16, 16, 16, float>& from) {
  for (unsigned i = 0; i < 8; ++i) {
    float sum = from.half_row[i];
    for (unsigned k = 0; k < 16; ++k) {
      sum += a.row[k] * b.columns[k][i];
    }
    to.half_row[i] = sum;
  }
}

}  // namespace nvcuda::wmma
