// cuBLASLt's binary interface, as far as we use it, so that the build needs no cuBLAS and the one
// on the machine is used at run time. Names and numbers are those of cublasLt.h, cublas_api.h and
// library_types.h of CUDA 13; they have been the same since CUDA 11.
// tests/gpu/vendor_headers.cc compares all of it with them.
#pragma once

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace ddp::cublaslt {

// Opaque: cublasLtContext, cublasLtMatmulDescOpaque_t and so on.
struct Context;
struct MatmulDesc;
struct MatrixLayout;
struct Preference;

/// cublasStatus_t, those that are told apart.
enum class Status : int { success = 0, not_supported = 15 };

/// cudaDataType_t.
enum class DataType : int { f32 = 0, bf16 = 14 };

/// cublasComputeType_t.
enum class ComputeType : int { f32 = 68 };

/// cublasOperation_t.
enum class Operation : std::int32_t { none = 0, transpose = 1 };

/// cublasLtMatmulDescAttributes_t.
enum class DescAttribute : int {
  transpose_a = 3,
  transpose_b = 4,
  epilogue = 7,
  bias_pointer = 8,
  aux_pointer = 11,
  aux_stride = 12,
};

/// cublasLtEpilogue_t.
enum class Epilogue : std::uint32_t {
  none = 1,
  bias = 4,
  gelu_aux_bias = 164,  ///< the result before GELU goes to aux
  gelu_slope = 192,     ///< DGELU: the result times GELU's slope at aux
};

/// cublasLtMatmulPreferenceAttributes_t.
enum class PreferenceAttribute : int {
  workspace_bytes = 1,
  alignment_a = 5,
  alignment_b = 6,
  alignment_c = 7,
  alignment_d = 8,
};

/// cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint64_t data[8] = {};
};

/// cublasLtMatmulHeuristicResult_t.
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes = 0;
  Status state = Status::success;
  float waves = 0;
  int reserved[4] = {};
};
static_assert(sizeof(HeuristicResult) == 96);

}  // namespace ddp::cublaslt
