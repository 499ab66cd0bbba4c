// CublasLtLibrary: cuBLASLt's functions, found at run time (DDPRUN_CUBLASLT_LIBRARY, else
// libcublasLt.so.13, else libcublasLt.so.12).
#pragma once

#include "trainer/layers/cuda/cublaslt_abi.h"

namespace ddp::cublaslt {

struct CublasLtLibrary {
  Status (*create)(Context**);
  Status (*matmul_desc_create)(MatmulDesc**, ComputeType, DataType scale);
  Status (*matmul_desc_set_attribute)(MatmulDesc*, DescAttribute, const void*, std::size_t);
  Status (*matmul_desc_destroy)(MatmulDesc*);
  Status (*matrix_layout_create)(MatrixLayout**, DataType, std::uint64_t rows,
                                 std::uint64_t columns, std::int64_t stride);
  Status (*matrix_layout_destroy)(MatrixLayout*);
  Status (*preference_create)(Preference**);
  Status (*preference_set_attribute)(Preference*, PreferenceAttribute, const void*, std::size_t);
  Status (*preference_destroy)(Preference*);
  Status (*get_heuristic)(Context*, MatmulDesc*, MatrixLayout* a, MatrixLayout* b, MatrixLayout* c,
                          MatrixLayout* d, Preference*, int wanted, HeuristicResult*, int* found);
  Status (*matmul)(Context*, MatmulDesc*, const void* alpha, const void* a, MatrixLayout*,
                   const void* b, MatrixLayout*, const void* beta, const void* c, MatrixLayout*,
                   void* d, MatrixLayout*, const Algorithm*, void* workspace, std::size_t bytes,
                   CUstream_st*);
};

/// Opened once per process. Throws DoNotRetry: which file was looked for, what is missing.
const CublasLtLibrary& cublaslt_library();

}  // namespace ddp::cublaslt
