#include "trainer/layers/product.h"

#include <string>

#include "ddp/error.h"
#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/matmul.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/gelu.h"
#include "trainer/layers/number.h"

// cuBLASLt's product, with its own epilogue where it has one for these sizes.
namespace ddp::gpu {
namespace {

template <class Real>
constexpr cublaslt::DataType kDataType = sizeof(Real) == sizeof(float) ? cublaslt::DataType::f32
                                                                       : cublaslt::DataType::bf16;

/// The epilogue by itself.
template <class Real>
__global__ void finish_kernel(ProductOf<Real> product) {
  const std::size_t i = global_thread();
  const std::size_t row = i / product.n;
  if (row >= product.m) {
    return;
  }
  const std::size_t column = i % product.n;
  const std::size_t at = row * product.out_stride + column;
  float value = widened(product.out[at]);
  if (product.bias != nullptr) {
    value += widened(product.bias[column]);
  }
  if (product.activated != nullptr) {
    product.activated[at] = rounded<Real>(gelu(value));
  }
  if (product.gelu_at != nullptr) {
    value *= gelu_gradient(widened(product.gelu_at[at]));
  }
  product.out[at] = rounded<Real>(value);
}

template <class Real, class Out>
Matmul plain(const ProductOf<Real, Out>& product) {
  return {.m = product.m,
          .n = product.n,
          .k = product.k,
          .a = {product.a.data, product.a.stride, product.a.transposed},
          .b = {product.b.data, product.b.stride, product.b.transposed},
          .factors = kDataType<Real>,
          .out = product.out,
          .out_stride = product.out_stride,
          .result = kDataType<Out>,
          .add = product.add};
}

/// With the epilogue in the same kernel. False when cuBLASLt has none for it.
template <class Real>
bool fused(const ProductOf<Real>& product, int device) {
  // cublasLt.h: rows of aux begin at multiples of 8 elements.
  if ((product.activated != nullptr || product.gelu_at != nullptr) && product.out_stride % 8 != 0) {
    return false;
  }
  Matmul matrix = plain(product);
  matrix.bias = product.bias;
  if (product.gelu_at != nullptr) {
    matrix.epilogue = cublaslt::Epilogue::gelu_slope;
    matrix.aux = const_cast<Real*>(product.gelu_at);  // which this epilogue reads
  } else if (product.activated != nullptr) {
    matrix.epilogue = cublaslt::Epilogue::gelu_aux_bias;
    // Its D is the last result, GELU's; what comes before goes to aux.
    matrix.out = product.activated;
    matrix.aux = product.out;
  } else {
    matrix.epilogue = cublaslt::Epilogue::bias;
  }
  return matmul(matrix, device);
}

/// Without an epilogue.
template <class Real, class Out>
void multiply(const ProductOf<Real, Out>& product, int device) {
  if (!matmul(plain(product), device)) {
    const std::string k = std::to_string(product.k);
    throw DeviceError("cuBLASLt has no algorithm for a product of " + std::to_string(product.m) +
                      " x " + k + " and " + k + " x " + std::to_string(product.n));
  }
}

/// The product that makes these rows of the result.
template <class Real>
ProductOf<Real, float> some_rows(ProductOf<Real, float> product, std::size_t first,
                                 std::size_t rows) {
  product.m = rows;
  product.a.data += first * (product.a.transposed ? 1 : product.a.stride);
  product.out += first * product.out_stride;
  return product;
}

}  // namespace

template <class Real>
void product(const ProductOf<Real>& product, int device) {
  const bool epilogue = product.bias != nullptr || product.gelu_at != nullptr;
  if (epilogue && fused(product, device)) {
    return;
  }
  multiply(product, device);
  if (epilogue) {
    launch(device, thread_for_each(product.m * product.n), finish_kernel<Real>, product);
  }
}

/// Out is f32, though the factors may be bf16: gradients of micro-steps are added to it. Rows that
/// are no whole 16 bytes of `a` are a product by themselves: cuBLASLt has its fast kernels for
/// whole ones alone, and GPT-2's vocabulary, whose gradient has a row for each token, is odd.
template <class Real>
void gradient_product(const ProductOf<Real, float>& product, int device) {
  constexpr std::size_t kTile = 128;
  const std::size_t whole = in_packs<Real>(product.m) ? product.m : product.m / kTile * kTile;
  if (whole > 0) {
    multiply(some_rows(product, 0, whole), device);
  }
  if (whole < product.m) {
    multiply(some_rows(product, whole, product.m - whole), device);
  }
}

template void product(const ProductOf<float>&, int);
template void product(const ProductOf<BFloat16>&, int);
template void gradient_product(const ProductOf<float, float>&, int);
template void gradient_product(const ProductOf<BFloat16, float>&, int);

}  // namespace ddp::gpu
