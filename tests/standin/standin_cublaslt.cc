// cuBLASLt on host memory, for tests alone: the products that trainer/layers asks for, added up in
// doubles in the order of k, with the epilogues it uses. Refuses, as the real one may, fused GELU
// whose rows are no multiples of 16 bytes, or whose addresses are not; and what makes no sense.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "ddp/export.h"
#include "ddp/tensor.h"
#include "trainer/layers/cuda/cublaslt_abi.h"

namespace ddp::cublaslt {

struct Context {};
struct Preference {
  std::uint32_t alignment[4] = {256, 256, 256, 256};
};

struct MatmulDesc {
  Operation a = Operation::none, b = Operation::none;
  Epilogue epilogue = Epilogue::none;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_stride = 0;
};

struct MatrixLayout {
  DataType type;
  std::uint64_t rows, columns;
  std::int64_t stride;

  [[nodiscard]] std::size_t at(std::uint64_t row, std::uint64_t column) const {
    return static_cast<std::size_t>(row + column * static_cast<std::uint64_t>(stride));
  }
  [[nodiscard]] double read(const void* data, std::size_t at) const {
    return type == DataType::f32 ? static_cast<const float*>(data)[at]
                                 : static_cast<float>(static_cast<const BFloat16*>(data)[at]);
  }
  void write(void* data, std::size_t at, double value) const {
    const auto single = static_cast<float>(value);
    if (type == DataType::f32) {
      static_cast<float*>(data)[at] = single;
    } else {
      static_cast<BFloat16*>(data)[at] = BFloat16(single);
    }
  }
};

namespace {

constexpr Status kInvalid{7};  // CUBLAS_STATUS_INVALID_VALUE
constexpr double kSlope = 0.7978845608028654;

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(kSlope * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double tanh = std::tanh(kSlope * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * kSlope * (1 + 3 * 0.044715 * x * x);
}

bool uses_aux(const MatmulDesc& desc) {
  return desc.epilogue == Epilogue::gelu_aux_bias || desc.epilogue == Epilogue::gelu_slope;
}

/// Whether the three matrices fit each other as D = op(A) op(B).
bool fits(const MatmulDesc& desc, const MatrixLayout& a, const MatrixLayout& b,
          const MatrixLayout& d) {
  const bool turned_a = desc.a == Operation::transpose;
  const bool turned_b = desc.b == Operation::transpose;
  const auto wide_enough = [](const MatrixLayout& layout) {
    return layout.rows > 0 && layout.columns > 0 &&
           layout.stride >= static_cast<std::int64_t>(layout.rows);
  };
  return (turned_a ? a.columns : a.rows) == d.rows &&
         (turned_b ? b.rows : b.columns) == d.columns &&
         (turned_a ? a.rows : a.columns) == (turned_b ? b.columns : b.rows) && wide_enough(a) &&
         wide_enough(b) && wide_enough(d) && a.type == b.type;
}

/// (count, depth): element (i, k) lies at row i and column k, or the other way round.
std::vector<double> gathered(const MatrixLayout& layout, const void* data, bool row_first,
                             std::size_t count, std::size_t depth) {
  std::vector<double> values;
  values.reserve(count * depth);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < depth; ++k) {
      values.push_back(layout.read(data, row_first ? layout.at(i, k) : layout.at(k, i)));
    }
  }
  return values;
}

template <class T>
Status put(T& field, const void* value, std::size_t bytes) {
  if (bytes != sizeof field) {
    return kInvalid;
  }
  std::memcpy(&field, value, bytes);
  return Status::success;
}

template <class T, class... Arguments>
Status make(T** made, Arguments... arguments) {
  *made = std::make_unique<T>(T{arguments...}).release();
  return Status::success;
}

template <class T>
Status end(T* made) {
  std::default_delete<T>()(made);
  return Status::success;
}

bool multiple(const void* data, std::uint32_t of) {
  return reinterpret_cast<std::uintptr_t>(data) % of == 0;
}

}  // namespace

extern "C" {

DDP_EXPORT Status cublasLtCreate(Context** context) {
  return make(context);
}
DDP_EXPORT Status cublasLtMatmulDescCreate(MatmulDesc** desc, ComputeType type, DataType scale) {
  return type == ComputeType::f32 && scale == DataType::f32 ? make(desc) : kInvalid;
}
DDP_EXPORT Status cublasLtMatmulDescSetAttribute(MatmulDesc* desc, DescAttribute attribute,
                                                 const void* value, std::size_t bytes) {
  switch (attribute) {
    case DescAttribute::transpose_a:
      return put(desc->a, value, bytes);
    case DescAttribute::transpose_b:
      return put(desc->b, value, bytes);
    case DescAttribute::epilogue:
      return put(desc->epilogue, value, bytes);
    case DescAttribute::bias_pointer:
      return put(desc->bias, value, bytes);
    case DescAttribute::aux_pointer:
      return put(desc->aux, value, bytes);
    case DescAttribute::aux_stride:
      return put(desc->aux_stride, value, bytes);
  }
  return kInvalid;
}
DDP_EXPORT Status cublasLtMatmulDescDestroy(MatmulDesc* desc) {
  return end(desc);
}
DDP_EXPORT Status cublasLtMatrixLayoutCreate(MatrixLayout** layout, DataType type,
                                             std::uint64_t rows, std::uint64_t columns,
                                             std::int64_t stride) {
  return make(layout, type, rows, columns, stride);
}
DDP_EXPORT Status cublasLtMatrixLayoutDestroy(MatrixLayout* layout) {
  return end(layout);
}
DDP_EXPORT Status cublasLtMatmulPreferenceCreate(Preference** preference) {
  return make(preference);
}
DDP_EXPORT Status cublasLtMatmulPreferenceSetAttribute(Preference* preference,
                                                       PreferenceAttribute attribute,
                                                       const void* value, std::size_t bytes) {
  const int which =
      static_cast<int>(attribute) - static_cast<int>(PreferenceAttribute::alignment_a);
  if (which < 0) {
    return bytes == sizeof(std::uint64_t) ? Status::success : kInvalid;
  }
  return put(preference->alignment[which], value, bytes);
}
DDP_EXPORT Status cublasLtMatmulPreferenceDestroy(Preference* preference) {
  return end(preference);
}

DDP_EXPORT Status cublasLtMatmulAlgoGetHeuristic(Context*, MatmulDesc* desc, MatrixLayout* a,
                                                 MatrixLayout* b, MatrixLayout* c, MatrixLayout* d,
                                                 Preference* preference, int wanted,
                                                 HeuristicResult* results, int* found) {
  *found = 0;
  if (!fits(*desc, *a, *b, *d) || c != d || wanted < 1) {
    return kInvalid;
  }
  if (uses_aux(*desc) && (desc->aux_stride % 8 != 0 || preference->alignment[3] < 16)) {
    return Status::not_supported;
  }
  // The algorithm remembers what addresses it was chosen for.
  results[0] = {};
  std::memcpy(results[0].algorithm.data, preference->alignment, sizeof preference->alignment);
  *found = 1;
  return Status::success;
}

DDP_EXPORT Status cublasLtMatmul(Context*, MatmulDesc* desc, const void* alpha, const void* a,
                                 MatrixLayout* a_layout, const void* b, MatrixLayout* b_layout,
                                 const void* beta, const void* c, MatrixLayout*, void* d,
                                 MatrixLayout* d_layout, const Algorithm* algorithm, void*,
                                 std::size_t, CUstream_st*) {
  std::uint32_t alignment[4];
  std::memcpy(alignment, algorithm->data, sizeof alignment);
  if (!fits(*desc, *a_layout, *b_layout, *d_layout) || !multiple(a, alignment[0]) ||
      !multiple(b, alignment[1]) || !multiple(c, alignment[2]) || !multiple(d, alignment[3])) {
    return kInvalid;
  }
  const double factor = *static_cast<const float*>(alpha);
  const double old = *static_cast<const float*>(beta);
  // op(A) row by row and op(B) column by column, so that each sum runs along memory.
  const std::size_t depth = desc->a == Operation::transpose ? a_layout->rows : a_layout->columns;
  const auto left = gathered(*a_layout, a, desc->a == Operation::none, d_layout->rows, depth);
  const auto right =
      gathered(*b_layout, b, desc->b == Operation::transpose, d_layout->columns, depth);
  MatrixLayout aux = *d_layout;
  aux.stride = desc->aux_stride;
  for (std::uint64_t column = 0; column < d_layout->columns; ++column) {
    for (std::uint64_t row = 0; row < d_layout->rows; ++row) {
      double sum = 0;
      for (std::size_t k = 0; k < depth; ++k) {
        sum += left[row * depth + k] * right[column * depth + k];
      }
      const std::size_t at = d_layout->at(row, column);
      sum = factor * sum + (old == 0 ? 0 : old * d_layout->read(c, at));
      if (desc->bias != nullptr) {
        sum += d_layout->read(desc->bias, static_cast<std::size_t>(row));
      }
      if (desc->epilogue == Epilogue::gelu_aux_bias) {
        aux.write(desc->aux, aux.at(row, column), sum);
        sum = gelu(sum);
      } else if (desc->epilogue == Epilogue::gelu_slope) {
        sum *= gelu_slope(aux.read(desc->aux, aux.at(row, column)));
      }
      d_layout->write(d, at, sum);
    }
  }
  return Status::success;
}

}  // extern "C"

}  // namespace ddp::cublaslt
