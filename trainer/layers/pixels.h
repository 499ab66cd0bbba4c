// From the bytes of an image to what a network sees: each colour minus its mean, divided by its
// standard deviation, those of CIFAR-10's 50,000 training images. Real: what activations are made
// of (layers.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/host_device.h"

namespace ddp {

inline constexpr int kColours = 3;

DDP_ARITHMETIC float normalised(std::uint8_t pixel, int colour) {
  constexpr float kMean[kColours] = {0.4914F, 0.4822F, 0.4465F};
  constexpr float kDeviation[kColours] = {0.2470F, 0.2435F, 0.2616F};
  return (static_cast<float>(pixel) / 255.0F - kMean[colour]) / kDeviation[colour];
}

template <class Real>
struct NormalisedPixelsOf {
  const std::uint8_t* pixels = nullptr;  ///< (M, 3)
  Real* images = nullptr;                ///< (M, stored): 0 behind the colours
  std::size_t count = 0;                 ///< M: images x pixels
  std::size_t stored = kColours;         ///< at least 3
};
void normalise_pixels(const NormalisedPixelsOf<float>& pass, int device = 0);

}  // namespace ddp
