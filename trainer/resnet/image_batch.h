// ImageBatch: the images and labels that a step computes with, and the gradient of its scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/resnet/cifar.h"
#include "trainer/resnet/class_loss.h"
#include "trainer/resnet/resnet.h"

namespace ddp {

class ImageBatch {
 public:
  /// Fills it with samples of `from`: as they are for epoch -1, else cut and mirrored as seed,
  /// epoch and sample say.
  void load(const LabelledImages& from, std::span<const std::size_t> samples, std::uint64_t seed,
            std::int64_t epoch);
  /// Forward of what was loaded, at least one image; in training the scores become their gradient.
  ClassLoss pass(Resnet& model, bool training);
  /// The gradient of the sum, in the model's memory: valid until its next forward.
  [[nodiscard]] const float* d_scores() const { return scores_.data(); }

 private:
  std::vector<float> images_;         // (N, 32, 32, 3)
  std::vector<std::int32_t> labels_;  // (N)
  std::span<float> scores_;           // (N, 10), the model's
};

}  // namespace ddp
