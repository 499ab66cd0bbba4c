#include "trainer/layers/dense.h"

#include "trainer/layers/cuda/bias_gradient.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/gpu_image_forms.h"

namespace ddp::gpu {

template <class Real>
void dense_forward(const DenseShape& shape, std::int64_t batch, const Real* x, const Real* weight,
                   const Real* bias, Real* y, int device) {
  product(dense_product(shape, batch, x, weight, bias, y), device);
}

template <class Real>
void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackwardOf<Real>& pass,
                    int device) {
  gradient_product(dense_weight_gradient_product(shape, batch, pass), device);
  add_bias_gradient(pass.d_y, static_cast<std::size_t>(batch),
                    static_cast<std::size_t>(shape.outputs), pass.d_bias, device);
  product(dense_input_gradient_product(shape, batch, pass), device);
}

template void dense_forward(const DenseShape&, std::int64_t, const float*, const float*,
                            const float*, float*, int);
template void dense_forward(const DenseShape&, std::int64_t, const BFloat16*, const BFloat16*,
                            const BFloat16*, BFloat16*, int);
template void dense_backward(const DenseShape&, std::int64_t, const DenseBackwardOf<float>&, int);
template void dense_backward(const DenseShape&, std::int64_t, const DenseBackwardOf<BFloat16>&,
                             int);

}  // namespace ddp::gpu
