#include "trainer/resnet/image_batch.h"

#include <utility>

#include "trainer/layers/row_chunks.h"
#include "trainer/metrics/stopwatch.h"
#include "trainer/resnet/augmentation.h"

namespace ddp {

void ImageBatch::load(const LabelledImages& from, std::span<const std::size_t> samples,
                      std::uint64_t seed, std::int64_t epoch) {
  Stopwatch watch;
  // Memory stays at the largest batch's size: epochs end with smaller ones.
  pixels_.resize(samples.size() * kCifarPixels);
  labels_.resize(samples.size());
  const auto count = static_cast<std::int64_t>(samples.size());
  for_row_chunks(count, [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(end); ++i) {
      // By the image's own number, and not by its place in the batch: ranks may be many or few.
      const auto placement =
          epoch < 0 ? Placement{}
                    : random_placement(seed, static_cast<std::uint64_t>(epoch), samples[i]);
      place_image(from.image(samples[i]), placement, pixels_.data() + i * kCifarPixels);
      labels_[i] = static_cast<std::int32_t>(from.labels[samples[i]]);
    }
  });
  load_s_ += watch.lap();
}

/// By whom the images were loaded, and when, is not asked: a step is told what its images have
/// cost.
double ImageBatch::take_load_s() {
  return std::exchange(load_s_, 0);
}

}  // namespace ddp
