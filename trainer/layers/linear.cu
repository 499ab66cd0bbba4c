#include "trainer/layers/linear.h"

#include "trainer/layers/cuda/bias_gradient.cuh"
#include "trainer/layers/cuda/gpu_forms.h"

namespace ddp::gpu {

template <class Real>
void linear_forward(const LinearForwardOf<Real>& pass, int device) {
  product(out_product(pass), device);
}

template <class Real>
void linear_backward(const LinearBackwardOf<Real>& pass, int device) {
  product(input_gradient_product(pass), device);
  gradient_product(weight_gradient_product(pass), device);
  if (pass.d_bias == nullptr) {
    return;
  }
  // By itself: cuBLASLt's epilogue for it overwrites, and these are added up over micro-steps.
  add_bias_gradient(pass.d_out, pass.rows, pass.outputs, pass.d_bias, device);
}

template void linear_forward(const LinearForwardOf<float>&, int);
template void linear_forward(const LinearForwardOf<BFloat16>&, int);
template void linear_backward(const LinearBackwardOf<float>&, int);
template void linear_backward(const LinearBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
