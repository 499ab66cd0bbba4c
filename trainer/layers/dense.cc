#include "trainer/layers/dense.h"

#include "trainer/layers/layers.h"

namespace ddp {

void dense_forward(const DenseShape& shape, std::int64_t batch, const float* x, const float* weight,
                   const float* bias, float* y, int device) {
  cpu_layers().product(dense_product(shape, batch, x, weight, bias, y), device);
}

void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackward& pass,
                    int device) {
  const Layers& layers = cpu_layers();
  layers.product(dense_weight_gradient_product(shape, batch, pass), device);
  // One image after the other, so that equal batches give equal bits. There are ten outputs.
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t k = 0; k < shape.outputs; ++k) {
      pass.d_bias[k] += pass.d_y[n * shape.outputs + k];
    }
  }
  layers.product(dense_input_gradient_product(shape, batch, pass), device);
}

}  // namespace ddp
