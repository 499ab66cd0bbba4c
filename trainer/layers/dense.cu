#include "trainer/layers/dense.h"

#include "trainer/layers/cuda/bias_gradient.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/gpu_image_forms.h"

namespace ddp::gpu {

template <class Real>
void dense_forward(const DenseShape& shape, std::int64_t batch, const Real* x, const Real* weight,
                   const Real* bias, Real* y, int device) {
  const auto features = static_cast<std::size_t>(shape.features);
  const auto outputs = static_cast<std::size_t>(shape.outputs);
  // PyTorch keeps the weights as (outputs, features): the second factor is read transposed.
  product(ProductOf<Real>{.m = static_cast<std::size_t>(batch),
                          .n = outputs,
                          .k = features,
                          .a = {x, features},
                          .b = {weight, features, true},
                          .out = y,
                          .out_stride = outputs,
                          .bias = bias},
          device);
}

template <class Real>
void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackwardOf<Real>& pass,
                    int device) {
  const auto features = static_cast<std::size_t>(shape.features);
  const auto outputs = static_cast<std::size_t>(shape.outputs);
  const auto rows = static_cast<std::size_t>(batch);
  // d_weight += d_y^T x, d_bias += the sum of d_y over the batch, d_x = d_y weight. The first two
  // are added to in f32, since a parameter's gradient may come from several passes.
  gradient_product(ProductOf<Real, float>{.m = outputs,
                                          .n = features,
                                          .k = rows,
                                          .a = {pass.d_y, outputs, true},
                                          .b = {pass.x, features},
                                          .out = pass.d_weight,
                                          .out_stride = features,
                                          .add = true},
                   device);
  add_bias_gradient(pass.d_y, rows, outputs, pass.d_bias, device);
  product(ProductOf<Real>{.m = rows,
                          .n = features,
                          .k = outputs,
                          .a = {pass.d_y, outputs},
                          .b = {pass.weight, features},
                          .out = pass.d_x,
                          .out_stride = features},
          device);
}

template void dense_forward(const DenseShape&, std::int64_t, const float*, const float*,
                            const float*, float*, int);
template void dense_forward(const DenseShape&, std::int64_t, const BFloat16*, const BFloat16*,
                            const BFloat16*, BFloat16*, int);
template void dense_backward(const DenseShape&, std::int64_t, const DenseBackwardOf<float>&, int);
template void dense_backward(const DenseShape&, std::int64_t, const DenseBackwardOf<BFloat16>&,
                             int);

}  // namespace ddp::gpu
