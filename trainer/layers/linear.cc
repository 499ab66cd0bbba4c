#include "trainer/layers/linear.h"

#include "trainer/layers/cpu_forms.h"
#include "trainer/layers/row_sums.h"

namespace ddp::DDP_LEVEL {
namespace {

using MakeProduct = void (*)(const Product&, int device);

void backward(const LinearBackward& pass, int device, MakeProduct make) {
  make(input_gradient_product(pass), device);
  make(weight_gradient_product(pass), device);
  if (pass.d_bias != nullptr) {
    add_rows(pass.d_out, pass.rows, pass.outputs, pass.d_bias);
  }
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
