#include "trainer/layers/linear.h"

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/team.h"

namespace ddp::DDP_LEVEL {
namespace {

using MakeProduct = void (*)(const Product&, int device);

/// Columns from `first`, each from the first row to the last.
void add_bias_gradient(const LinearBackward& pass, std::size_t first, std::size_t end) {
  float* __restrict d_bias = pass.d_bias;
  for (std::size_t row = 0; row < pass.rows; ++row) {
    const float* d_out = pass.d_out + row * pass.outputs;
    for (std::size_t o = first; o < end; ++o) {
      d_bias[o] += d_out[o];
    }
  }
}

void backward(const LinearBackward& pass, int device, MakeProduct make) {
  make(input_gradient_product(pass), device);
  make(weight_gradient_product(pass), device);
  share_out(pass.outputs, columns_worth_sharing(pass.rows, pass.outputs),
            [&](std::size_t first, std::size_t end, std::size_t) {
              add_bias_gradient(pass, first, end);
            });
}

}  // namespace

void linear_forward(const LinearForward& pass, int device) {
  product(out_product(pass), device);
}

void linear_backward(const LinearBackward& pass, int device) {
  backward(pass, device, product);
}

void bf16_linear_forward(const LinearForward& pass, int device) {
  bf16_product(out_product(pass), device);
}

void bf16_linear_backward(const LinearBackward& pass, int device) {
  backward(pass, device, bf16_product);
}

}  // namespace ddp::DDP_LEVEL
