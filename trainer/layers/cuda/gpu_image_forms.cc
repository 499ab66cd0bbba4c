// The tables of image models that the trainer finds in the GPU library.
#include "trainer/layers/cuda/gpu_image_forms.h"

#include "ddp/export.h"
#include "trainer/layers/cuda/convolution.h"
#include "trainer/layers/cuda/cublaslt_library.h"
#include "trainer/layers/cuda/gpu_forms.h"

namespace ddp::gpu {
namespace {

/// Both at once, so that none of them is missed after minutes of the first step.
void require_libraries(int device) {
  require_convolutions(device);
  (void)cublaslt::cublaslt_library();
}

/// By name, since both tables come from one list, and a place that is forgotten would be null.
template <class Real>
const ImageLayersOf<Real>* image_table() {
  static constexpr ImageLayersOf<Real> kLayers{.normalise_pixels = normalise_pixels<Real>,
                                               .norm_forward = norm_forward<Real>,
                                               .norm_infer = norm_infer<Real>,
                                               .norm_backward = norm_backward<Real>,
                                               .max_pool_forward = max_pool_forward<Real>,
                                               .max_pool_backward = max_pool_backward<Real>,
                                               .mean_pool_forward = mean_pool_forward<Real>,
                                               .mean_pool_backward = mean_pool_backward<Real>,
                                               .dense_forward = dense_forward<Real>,
                                               .dense_backward = dense_backward<Real>,
                                               .class_loss = class_loss<Real>,
                                               .round = round<Real>,
                                               .require_libraries = require_libraries,
                                               .order_weights = order_weights<Real>,
                                               .convolution_forward = convolution_forward<Real>,
                                               .convolution_data = convolution_data<Real>,
                                               .convolution_weights = convolution_weights<Real>};
  return &kLayers;
}

}  // namespace

// C's names: the trainer looks them up by text (trainer/layers/image_layers.cc).
extern "C" DDP_EXPORT const ImageLayersOf<float>* ddprun_image_layers_f32() {
  return image_table<float>();
}
extern "C" DDP_EXPORT const ImageLayersOf<BFloat16>* ddprun_image_layers_bf16() {
  return image_table<BFloat16>();
}

}  // namespace ddp::gpu
