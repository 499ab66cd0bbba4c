// What the tests of the GPU forms share. They run wherever the runtime finds a GPU: on a real one
// (label `gpu`), and always on the stand-in, which runs the very kernels on the CPU.
#pragma once

#include <cstdlib>
#include <string>

#include "ddp/error.h"
#include "ddp/tensor.h"
#include "tests/support/skip.h"
#include "tests/unit/trainer/layers/layer_cases.h"
#include "trainer/layers/number.h"

namespace ddp_test {

/// Why there is no GPU here; empty when there is one. The stand-in of one (ctest names it in the
/// environment) takes those of cuBLASLt and cuDNN.
inline std::string no_gpu() {
  if (std::getenv("DDPRUN_GPU_LIBRARY") != nullptr) {
    ::setenv("DDPRUN_CUBLASLT_LIBRARY", STANDIN_CUBLASLT, 1);
    ::setenv("DDPRUN_CUDNN_LIBRARY", STANDIN_CUDNN, 1);
  }
  try {
    (void)ddp::Tensor::empty({1}, ddp::DType::f32, ddp::Device::cuda(0));
    return "";
  } catch (const ddp::DeviceError& error) {
    return error.what();
  }
}

/// Calls `body` for each order in which the stand-in lets a block's threads go on.
template <class Body>
void in_each_order(const Body& body) {
  for (const char* order : {"ascending", "descending"}) {
    INFO("threads in " << order << " order");
    ::setenv("DDPRUN_STANDIN_THREAD_ORDER", order, 1);
    body();
  }
  ::unsetenv("DDPRUN_STANDIN_THREAD_ORDER");
}

/// An array on the GPU, of floats or of bf16, that is filled with and read as floats.
template <class Real>
class OnGpu {
 public:
  explicit OnGpu(const Floats& values) {
    std::vector<Real> numbers;
    for (const float value : values) {
      numbers.push_back(ddp::rounded<Real>(value));
    }
    tensor_ = ddp::Tensor::from(numbers, ddp::Device::cuda(0));
  }
  OnGpu(std::size_t count, float value) : OnGpu(Floats(count, value)) {}

  [[nodiscard]] Real* data() const { return tensor_.template data<Real>(); }
  [[nodiscard]] Floats floats() const {
    Floats values;
    for (const Real number : tensor_.template to_vector<Real>()) {
      values.push_back(ddp::widened(number));
    }
    return values;
  }

 private:
  ddp::Tensor tensor_;
};

/// What the GPU gets, as floats: both devices then compute with equal inputs.
template <class Real>
Floats as_stored(Floats values) {
  for (float& value : values) {
    value = ddp::widened(ddp::rounded<Real>(value));
  }
  return values;
}

/// Of results that were rounded to Real once, relative to the largest; bf16 has 8 bits.
template <class Real>
constexpr double kTolerance = sizeof(Real) == sizeof(float) ? 3e-6 : 5e-3;

}  // namespace ddp_test

/// Ends the test case that it stands in as skipped where there is no GPU.
#define NEED_GPU()                                      \
  if (const std::string why = no_gpu(); !why.empty()) { \
    SKIP_TEST("gpu", why);                              \
  }
