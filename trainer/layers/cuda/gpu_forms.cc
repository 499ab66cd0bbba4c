// The tables that the trainer finds in the GPU library.
#include "trainer/layers/cuda/gpu_forms.h"

#include "ddp/export.h"
#include "trainer/layers/cuda/cublaslt_library.h"

namespace ddp::gpu {
namespace {

void require_libraries() {
  (void)cublaslt::cublaslt_library();
}

/// By name, since both tables come from one list, and a place that is forgotten would be null.
template <class Real>
const LayersOf<Real>* table() {
  static constexpr LayersOf<Real> kLayers{.embedding_forward = embedding_forward<Real>,
                                          .embedding_backward = embedding_backward<Real>,
                                          .layer_norm_forward = layer_norm_forward<Real>,
                                          .layer_norm_backward = layer_norm_backward<Real>,
                                          .product = product<Real>,
                                          .gradient_product = gradient_product<Real>,
                                          .linear_forward = linear_forward<Real>,
                                          .linear_backward = linear_backward<Real>,
                                          .attention_forward = attention_forward<Real>,
                                          .attention_backward = attention_backward<Real>,
                                          .cross_entropy = cross_entropy<Real>,
                                          .round = round<Real>,
                                          .adamw_update = adamw_update,
                                          .sums_of_squares = sums_of_squares,
                                          .require_libraries = require_libraries};
  return &kLayers;
}

}  // namespace

// C's names: the trainer looks them up by text (trainer/layers/gpu_layers.cc).
extern "C" DDP_EXPORT const LayersOf<float>* ddprun_layers_f32() {
  return table<float>();
}
extern "C" DDP_EXPORT const LayersOf<BFloat16>* ddprun_layers_bf16() {
  return table<BFloat16>();
}

}  // namespace ddp::gpu
