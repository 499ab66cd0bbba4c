#include "trainer/layers/pixels.h"

#include "trainer/layers/row_chunks.h"

namespace ddp {

/// Each image as often as it is seen: an epoch of CIFAR-10 as floats would be 600 MB.
void normalise_pixels(const NormalisedPixelsOf<float>& pass, int /*device*/) {
  for_row_chunks(static_cast<std::int64_t>(pass.count), [&](std::int64_t /*chunk*/,
                                                            std::int64_t first, std::int64_t end) {
    for (auto m = static_cast<std::size_t>(first); m < static_cast<std::size_t>(end); ++m) {
      for (std::size_t c = 0; c < pass.stored; ++c) {
        pass.images[m * pass.stored + c] =
            c < kColours ? normalised(pass.pixels[m * kColours + c], static_cast<int>(c)) : 0.0F;
      }
    }
  });
}

}  // namespace ddp
