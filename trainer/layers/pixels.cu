#include "trainer/layers/pixels.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_image_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// A thread for each pixel. The arithmetic is the CPU's own (pixels.h).
template <int width, class Real>
__global__ void normalise_pixels_kernel(NormalisedPixelsOf<Real> pass) {
  const std::size_t m = global_thread();
  if (m >= pass.count) {
    return;
  }
  // Behind the three colours the channels are zeros, written anew each time: the memory is shared
  // with batches of other sizes.
  for (std::size_t first = 0; first < pass.stored; first += width) {
    Pack<Real, width> colours;
    for (int j = 0; j < width; ++j) {
      const int c = static_cast<int>(first) + j;
      colours.of[j] =
          rounded<Real>(c < kColours ? normalised(pass.pixels[m * kColours + c], c) : 0.0F);
    }
    store_pack(pass.images + m * pass.stored + first, colours);
  }
}

}  // namespace

template <class Real>
void normalise_pixels(const NormalisedPixelsOf<Real>& pass, int device) {
  launch(device, thread_for_each(pass.count),
         in_packs<Real>(pass.stored) ? normalise_pixels_kernel<kPackOf<Real>, Real>
                                     : normalise_pixels_kernel<1, Real>,
         pass);
}

template void normalise_pixels(const NormalisedPixelsOf<float>&, int);
template void normalise_pixels(const NormalisedPixelsOf<BFloat16>&, int);

}  // namespace ddp::gpu
