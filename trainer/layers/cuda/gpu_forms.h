// The GPU forms of all layers, beside the CPU forms: layer.cu beside layer.cc. Kernels are queued
// on the default stream of `device`; errors in them are thrown by whoever copies next. Rows,
// channels and the like are at least 1. Real: float or BFloat16.
#pragma once

#include "ddp/tensor.h"
#include "trainer/layers/layers.h"

namespace ddp::gpu {

template <class Real>
void embedding_forward(const EmbeddingForwardOf<Real>& pass, int device);
template <class Real>
void embedding_backward(const EmbeddingBackwardOf<Real>& pass, int device);
template <class Real>
void layer_norm_forward(const LayerNormForwardOf<Real>& pass, int device);
template <class Real>
void layer_norm_backward(const LayerNormBackwardOf<Real>& pass, int device);
template <class Real>
void product(const ProductOf<Real>& product, int device);
template <class Real>
void gradient_product(const ProductOf<Real, float>& product, int device);
template <class Real>
void linear_forward(const LinearForwardOf<Real>& pass, int device);
template <class Real>
void linear_backward(const LinearBackwardOf<Real>& pass, int device);
/// Heads of up to kGpuHeadSizeMax channels; InvalidArgument otherwise.
template <class Real>
void attention_forward(const AttentionForwardOf<Real>& pass, int device);
template <class Real>
void attention_backward(const AttentionBackwardOf<Real>& pass, int device);
template <class Real>
void cross_entropy(const CrossEntropyOf<Real>& pass, int device);
template <class Real>
void round(const float* from, Real* to, std::size_t count, int device);
void adamw_update(const AdamWUpdate* updates, std::size_t count, int device);
void sums_of_squares(const SquareSum* sums, std::size_t count, int device);

}  // namespace ddp::gpu
