// A small data set in CIFAR-10's real format: ten classes of coloured stripes.
#pragma once

#include <string>

#include "trainer/uniform.h"

namespace ddp {

/// `count` images: the class is in the colour and in the width of the stripes, with noise.
inline std::string striped_images(int count, std::uint64_t seed) {
  Uniform random(seed);
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int label = i % 10;
    bytes += static_cast<char>(label);
    for (int pixel = 0; pixel < 3 * 1024; ++pixel) {
      const int colour = pixel / 1024;
      const int stripe = pixel % 32 / (label / 3 + 1) % 2;
      const float light = colour == label % 3 ? 150 : 60;
      bytes += static_cast<char>(light + 60 * static_cast<float>(stripe) + 40 * random.next());
    }
  }
  return bytes;
}

}  // namespace ddp
