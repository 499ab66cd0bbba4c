#include "worker_runtime/training/gradient_arithmetic.h"

#include "rendezvous/base/check.h"
#include "worker_runtime/gpu.h"

namespace ddp {
namespace {

template <class T>
void divide_host(const Tensor& tensor, double divisor) {
  // In T, as the GPU does it.
  const T by = static_cast<T>(divisor);
  for (T& value : tensor.values<T>()) {
    value /= by;
  }
}

}  // namespace

void divide(const Tensor& values, double divisor) {
  DDP_CHECK(values.dtype() == DType::f32 || values.dtype() == DType::f64, "gradients are floats");
  if (divisor == 0) {
    values.zero();
  } else if (values.device().is_cuda()) {
    require_gpu().divide(values.raw(), values.size(), values.dtype(), divisor,
                         values.device().index);
  } else if (values.dtype() == DType::f32) {
    divide_host<float>(values, divisor);
  } else {
    divide_host<double>(values, divisor);
  }
}

void narrow(const Tensor& from, const Tensor& to) {
  DDP_CHECK(from.size() == to.size() && from.device() == to.device(), "one bucket, two types");
  if (from.device().is_cuda()) {
    require_gpu().narrow(to.raw(), from.raw(), from.size(), from.device().index);
    return;
  }
  const auto in = from.values<float>();
  const auto out = to.values<BFloat16>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = BFloat16(in[i]);
  }
}

void widen(const Tensor& from, const Tensor& to) {
  DDP_CHECK(from.size() == to.size() && from.device() == to.device(), "one bucket, two types");
  if (from.device().is_cuda()) {
    require_gpu().widen(to.raw(), from.raw(), from.size(), from.device().index);
    return;
  }
  const auto in = from.values<BFloat16>();
  const auto out = to.values<float>();
  for (std::size_t i = 0; i < in.size(); ++i) {
    out[i] = static_cast<float>(in[i]);
  }
}

}  // namespace ddp
