#include "trainer/layers/linear.h"

#include "trainer/layers/cuda/column_sums.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// The gradient of a bias.
template <class Real>
struct BiasTerms {
  const Real* d_out;
  std::size_t outputs;
  __device__ Terms<1> operator()(std::size_t row, std::size_t o) const {
    return {{widened(d_out[row * outputs + o])}};
  }
};

}  // namespace

template <class Real>
void linear_forward(const LinearForwardOf<Real>& pass, int device) {
  product(out_product(pass), device);
}

template <class Real>
void linear_backward(const LinearBackwardOf<Real>& pass, int device) {
  product(input_gradient_product(pass), device);
  gradient_product(weight_gradient_product(pass), device);
  // By itself: cuBLASLt's epilogue for it overwrites, and these are added up over micro-steps.
  add_column_sums(device, BiasTerms<Real>{pass.d_out, pass.outputs}, pass.rows, pass.outputs,
                  Targets<1>{{pass.d_bias}});
}

template void linear_forward(const LinearForwardOf<float>&, int);
template void linear_forward(const LinearForwardOf<BFloat16>&, int);
template void linear_backward(const LinearBackwardOf<float>&, int);
template void linear_backward(const LinearBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
