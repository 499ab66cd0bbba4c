#include "trainer/layers/dense.h"

#include <cstddef>

#include "trainer/layers/layers.h"

namespace ddp {
namespace {

/// Layers count in std::size_t, and images in the type of Tensor's shapes.
std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

void dense_forward(const DenseShape& shape, std::int64_t batch, const float* x, const float* weight,
                   const float* bias, float* y, int /*device*/) {
  const auto features = size(shape.features);
  const auto outputs = size(shape.outputs);
  cpu_layers().product({.m = size(batch),
                        .n = outputs,
                        .k = features,
                        .a = {x, features},
                        .b = {weight, features, true},
                        .out = y,
                        .out_stride = outputs,
                        .bias = bias},
                       0);
}

void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackward& pass,
                    int /*device*/) {
  const auto features = size(shape.features);
  const auto outputs = size(shape.outputs);
  const Layers& layers = cpu_layers();
  // d_weight += d_y^T x, d_bias += the sum of d_y over the batch, d_x = d_y weight.
  layers.product({.m = outputs,
                  .n = features,
                  .k = size(batch),
                  .a = {pass.d_y, outputs, true},
                  .b = {pass.x, features},
                  .out = pass.d_weight,
                  .out_stride = features,
                  .add = true},
                 0);
  // One image after the other, so that equal batches give equal bits. There are ten outputs.
  for (std::int64_t n = 0; n < batch; ++n) {
    for (std::int64_t k = 0; k < shape.outputs; ++k) {
      pass.d_bias[k] += pass.d_y[n * shape.outputs + k];
    }
  }
  layers.product({.m = size(batch),
                  .n = features,
                  .k = outputs,
                  .a = {pass.d_y, outputs},
                  .b = {pass.weight, features},
                  .out = pass.d_x,
                  .out_stride = features},
                 0);
}

}  // namespace ddp
