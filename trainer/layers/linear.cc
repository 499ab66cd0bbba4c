#include "trainer/layers/linear.h"

#include "trainer/layers/cpu_forms.h"

namespace ddp::DDP_LEVEL {

namespace {

using MakeProduct = void (*)(const Product&, int device);

void forward(const LinearForward& pass, int device, MakeProduct make) {
  make({.m = pass.rows,
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

void backward(const LinearBackward& pass, int device, MakeProduct make) {
  // d_input (R, I) = d_out (R, O) W^T
  make({.m = pass.rows,
        .n = pass.inputs,
        .k = pass.outputs,
        .a = {pass.d_out, pass.outputs},
        .b = {pass.weight, pass.outputs, true},
        .out = pass.d_input,
        .out_stride = pass.inputs,
        .gelu_at = pass.before_gelu},
       device);
  // d_weight (I, O) += input^T d_out
  make({.m = pass.inputs,
        .n = pass.outputs,
        .k = pass.rows,
        .a = {pass.input, pass.inputs, true},
        .b = {pass.d_out, pass.outputs},
        .out = pass.d_weight,
        .out_stride = pass.outputs,
        .add = true},
       device);
  float* __restrict d_bias = pass.d_bias;
  for (std::size_t row = 0; row < pass.rows; ++row) {
    const float* d_out = pass.d_out + row * pass.outputs;
    for (std::size_t o = 0; o < pass.outputs; ++o) {
      d_bias[o] += d_out[o];
    }
  }
}

}  // namespace

void linear_forward(const LinearForward& pass, int device) {
  forward(pass, device, product);
}

void linear_backward(const LinearBackward& pass, int device) {
  backward(pass, device, product);
}

void bf16_linear_forward(const LinearForward& pass, int device) {
  forward(pass, device, bf16_product);
}

void bf16_linear_backward(const LinearBackward& pass, int device) {
  backward(pass, device, bf16_product);
}

}  // namespace ddp::DDP_LEVEL
