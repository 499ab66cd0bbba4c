// A product of matrices by cuBLASLt, with what it can do in the same kernel right after it. What it
// is not: the layer (product.cu), which does by a kernel of its own what cuBLASLt refuses.
#pragma once

#include <cstddef>

#include "trainer/layers/cuda/cublaslt_abi.h"

namespace ddp::gpu {

/// As FactorOf (product.h).
struct MatmulFactor {
  const void* data = nullptr;
  std::size_t stride = 0;
  bool transposed = false;
};

/// out (M, N) = a (M, K) b (K, N), all row by row; sums in f32.
struct Matmul {
  std::size_t m = 0, n = 0, k = 0;
  MatmulFactor a, b;
  cublaslt::DataType factors = cublaslt::DataType::f32;
  void* out = nullptr;
  std::size_t out_stride = 0;
  cublaslt::DataType result = cublaslt::DataType::f32;
  bool add = false;
  cublaslt::Epilogue epilogue = cublaslt::Epilogue::none;
  const void* bias = nullptr;  ///< (N)
  void* aux = nullptr;         ///< (M, N), rows out_stride apart
};

/// Queues it on the default stream. False when cuBLASLt has no algorithm for it: then nothing is
/// queued. Throws DeviceError.
bool matmul(const Matmul& product, int device);

}  // namespace ddp::gpu
