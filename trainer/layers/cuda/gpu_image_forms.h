// The GPU forms of the layers of image models, beside the CPU forms: layer.cu beside layer.cc. As
// gpu_forms.h has it: kernels are queued on the default stream of `device`, and Real is float or
// BFloat16.
#pragma once

#include "ddp/tensor.h"
#include "trainer/layers/image_layers.h"

namespace ddp::gpu {

template <class Real>
void normalise_pixels(const NormalisedPixelsOf<Real>& pass, int device);
template <class Real>
void norm_forward(const NormShape& shape, const NormForwardOf<Real>& pass, int device);
template <class Real>
void norm_infer(const NormShape& shape, const NormForwardOf<Real>& pass, int device);
template <class Real>
void norm_backward(const NormShape& shape, const NormBackwardOf<Real>& pass, int device);
template <class Real>
void max_pool_forward(const PoolShape& shape, std::int64_t batch, const Real* x, Real* y,
                      std::uint8_t* chosen, int device);
template <class Real>
void max_pool_backward(const PoolShape& shape, std::int64_t batch, const Real* d_y,
                       const std::uint8_t* chosen, Real* d_x, const Real* d_more, int device);
template <class Real>
void mean_pool_forward(const PoolShape& shape, std::int64_t batch, const Real* x, Real* y,
                       int device);
template <class Real>
void mean_pool_backward(const PoolShape& shape, std::int64_t batch, const Real* d_y, Real* d_x,
                        int device);
template <class Real>
void dense_forward(const DenseShape& shape, std::int64_t batch, const Real* x, const Real* weight,
                   const Real* bias, Real* y, int device);
template <class Real>
void dense_backward(const DenseShape& shape, std::int64_t batch, const DenseBackwardOf<Real>& pass,
                    int device);
template <class Real>
void class_loss(const ClassLossOf<Real>& pass, int device);
template <class Real>
void order_weights(const OrderedWeightsOf<Real>& pass, int device);
template <class Real>
void convolution_forward(const ConvolutionForwardOf<Real>& pass, int device);
template <class Real>
void convolution_data(const ConvolutionDataOf<Real>& pass, int device);
template <class Real>
void convolution_weights(const ConvolutionWeightsOf<Real>& pass, int device);

}  // namespace ddp::gpu
