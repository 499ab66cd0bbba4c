// ResnetPasses: a ResNet with its images and its loss, on the device that it was made for: what the
// training needs of it, whatever numbers it computes with.
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/layers/class_loss.h"
#include "trainer/resnet/image_batch.h"
#include "trainer/resnet/resnet.h"

namespace ddp {

class ResnetPasses {
 public:
  virtual ~ResnetPasses() = default;

  [[nodiscard]] virtual ModelTensors& tensors() = 0;
  /// Of at least one image. On a GPU it queues the work, after it has taken the images and labels;
  /// in training the scores become their gradient.
  virtual void forward(const ImageBatch& batch, bool training) = 0;
  /// Of the last forward(), one of training.
  virtual void backward(const GradientReady& ready) = 0;
  /// Of the last forward(). Waits until the device is done with all that is queued.
  [[nodiscard]] virtual ClassLoss loss() = 0;
};

/// f32 on the CPU, bf16 on a GPU.
std::unique_ptr<ResnetPasses> make_resnet_passes(const ResnetShape& shape, std::uint64_t seed,
                                                 Device device);

}  // namespace ddp
