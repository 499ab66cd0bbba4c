// WarpTile: 16 x 16 sums of products, which the lanes of a warp hold and make together. bf16 goes
// through the tensor cores; floats go without, for comparisons alone. Which lane holds which sum is
// unknown: sums reach other lanes by store(), and __syncwarp() orders that.
#pragma once

#include <cuda_bf16.h>
#include <mma.h>

#include "ddp/tensor.h"
#include "trainer/layers/cuda/block.cuh"

namespace ddp::gpu {

inline constexpr int kTile = 16;

/// Addresses of matrices are multiples of 32 bytes, rows are multiples of 16 bytes apart.
template <class Real>
class WarpTile;

template <>
class WarpTile<BFloat16> {
 public:
  __device__ void clear() { nvcuda::wmma::fill_fragment(sums_, 0.0F); }
  __device__ void load(const float* from, unsigned stride) {
    nvcuda::wmma::load_matrix_sync(sums_, from, stride, nvcuda::wmma::mem_row_major);
  }
  __device__ void store(float* to, unsigned stride) const {
    nvcuda::wmma::store_matrix_sync(to, sums_, stride, nvcuda::wmma::mem_row_major);
  }

  /// += a (16, depth) b (depth, 16), both row by row.
  template <int depth>
  __device__ void add(const BFloat16* a, unsigned a_stride, const BFloat16* b, unsigned b_stride) {
#pragma unroll
    for (int k = 0; k < depth; k += kTile) {
      multiply<nvcuda::wmma::row_major>(a + k, a_stride, b + k * b_stride, b_stride);
    }
  }
  /// += a (16, depth) b^T, where b (16, depth) lies row by row.
  template <int depth>
  __device__ void add_transposed(const BFloat16* a, unsigned a_stride, const BFloat16* b,
                                 unsigned b_stride) {
#pragma unroll
    for (int k = 0; k < depth; k += kTile) {
      multiply<nvcuda::wmma::col_major>(a + k, a_stride, b + k, b_stride);
    }
  }

 private:
  template <class Layout>
  __device__ void multiply(const BFloat16* a, unsigned a_stride, const BFloat16* b,
                           unsigned b_stride) {
    using namespace nvcuda::wmma;
    fragment<matrix_a, kTile, kTile, kTile, __nv_bfloat16, row_major> left;
    fragment<matrix_b, kTile, kTile, kTile, __nv_bfloat16, Layout> right;
    load_matrix_sync(left, reinterpret_cast<const __nv_bfloat16*>(a), a_stride);
    load_matrix_sync(right, reinterpret_cast<const __nv_bfloat16*>(b), b_stride);
    mma_sync(sums_, left, right, sums_);
  }

  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kTile, kTile, kTile, float> sums_;
};

/// Each lane has half a row.
template <>
class WarpTile<float> {
 public:
  __device__ void clear() {
    for (float& sum : sums_) {
      sum = 0;
    }
  }
  __device__ void load(const float* from, unsigned stride) {
    for (int i = 0; i < kHalf; ++i) {
      sums_[i] = from[row() * stride + column(i)];
    }
  }
  __device__ void store(float* to, unsigned stride) const {
    for (int i = 0; i < kHalf; ++i) {
      to[row() * stride + column(i)] = sums_[i];
    }
  }
  template <int depth>
  __device__ void add(const float* a, unsigned a_stride, const float* b, unsigned b_stride) {
    for (int k = 0; k < depth; ++k) {
      for (int i = 0; i < kHalf; ++i) {
        sums_[i] += a[row() * a_stride + k] * b[k * b_stride + column(i)];
      }
    }
  }
  template <int depth>
  __device__ void add_transposed(const float* a, unsigned a_stride, const float* b,
                                 unsigned b_stride) {
    for (int k = 0; k < depth; ++k) {
      for (int i = 0; i < kHalf; ++i) {
        sums_[i] += a[row() * a_stride + k] * b[column(i) * b_stride + k];
      }
    }
  }

 private:
  static constexpr int kHalf = kTile / 2;
  __device__ static unsigned row() { return lane_index() / 2; }
  __device__ static unsigned column(int i) { return lane_index() % 2 * kHalf + i; }

  float sums_[kHalf];
};

}  // namespace ddp::gpu
