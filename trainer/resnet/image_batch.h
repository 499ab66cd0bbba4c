// ImageBatch: the images and labels that a step computes with, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/resnet/cifar.h"

namespace ddp {

class ImageBatch {
 public:
  /// Fills it with samples of `from`: as they are for epoch -1, else cut and mirrored as seed,
  /// epoch and sample say.
  void load(const LabelledImages& from, std::span<const std::size_t> samples, std::uint64_t seed,
            std::int64_t epoch);
  /// Seconds that load() has taken since this was asked last.
  double take_load_s();

  [[nodiscard]] std::size_t size() const { return labels_.size(); }
  /// (N, 32, 32, 3), in colours of 0 to 255.
  [[nodiscard]] std::span<const std::uint8_t> pixels() const { return pixels_; }
  /// (N)
  [[nodiscard]] std::span<const std::int32_t> labels() const { return labels_; }

 private:
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
  double load_s_ = 0;
};

}  // namespace ddp
