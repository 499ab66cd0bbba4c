#include "trainer/resnet/image_batch.h"

#include "trainer/layers/row_chunks.h"
#include "trainer/resnet/augmentation.h"

namespace ddp {

void ImageBatch::load(const LabelledImages& from, std::span<const std::size_t> samples,
                      std::uint64_t seed, std::int64_t epoch) {
  images_.resize(samples.size() * kCifarPixels);
  labels_.resize(samples.size());
  const auto count = static_cast<std::int64_t>(samples.size());
  for_row_chunks(count, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
      const auto placement =
          epoch < 0 ? Placement{}
                    : random_placement(seed, static_cast<std::uint64_t>(epoch), samples[i]);
      place_image(from.image(samples[i]), placement, images_.data() + i * kCifarPixels);
      labels_[i] = static_cast<std::int32_t>(from.labels[samples[i]]);
    }
  });
}

ClassLoss ImageBatch::pass(Resnet& model, bool training) {
  // The last batch of an epoch is shorter, and a rank's share of a step may change.
  const auto count = static_cast<std::int64_t>(labels_.size());
  scores_ = {model.forward(count, images_.data(), training), labels_.size() * kCifarClasses};
  return class_loss(scores_, labels_, training);
}

}  // namespace ddp
