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
  product<Real>({.m = pass.rows,
                 .n = pass.outputs,
                 .k = pass.inputs,
                 .a = {pass.input, pass.inputs},
                 .b = {pass.weight, pass.outputs},
                 .out = pass.out,
                 .out_stride = pass.outputs,
                 .bias = pass.bias,
                 .activated = pass.activated},
                device);
}

template <class Real>
void linear_backward(const LinearBackwardOf<Real>& pass, int device) {
  // d_input (R, I) = d_out (R, O) W^T
  product<Real>({.m = pass.rows,
                 .n = pass.inputs,
                 .k = pass.outputs,
                 .a = {pass.d_out, pass.outputs},
                 .b = {pass.weight, pass.outputs, true},
                 .out = pass.d_input,
                 .out_stride = pass.inputs,
                 .gelu_at = pass.before_gelu},
                device);
  // d_weight (I, O) += input^T d_out
  gradient_product<Real>({.m = pass.inputs,
                          .n = pass.outputs,
                          .k = pass.rows,
                          .a = {pass.input, pass.inputs, true},
                          .b = {pass.d_out, pass.outputs},
                          .out = pass.d_weight,
                          .out_stride = pass.outputs,
                          .add = true},
                         device);
  // By itself: cuBLASLt's epilogue for it overwrites, and these are added up over micro-steps.
  add_column_sums(device, BiasTerms<Real>{pass.d_out, pass.outputs}, pass.rows, pass.outputs,
                  Targets<1>{{pass.d_bias}});
}

template void linear_forward(const LinearForwardOf<float>&, int);
template void linear_forward(const LinearForwardOf<BFloat16>&, int);
template void linear_backward(const LinearBackwardOf<float>&, int);
template void linear_backward(const LinearBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
