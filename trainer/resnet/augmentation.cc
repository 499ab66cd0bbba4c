#include "trainer/resnet/augmentation.h"

#include "trainer/resnet/cifar.h"

namespace ddp {
namespace {

/// splitmix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mixed(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

/// 0 to below `count`, from 24 of the bits: for counts this small the bias is below 1e-6.
int share_of(std::uint64_t bits, int count) {
  return static_cast<int>(((bits & 0xFFFFFFU) * static_cast<std::uint64_t>(count)) >> 24U);
}

}  // namespace

Placement random_placement(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) {
  const auto bits = mixed(mixed(mixed(seed) ^ epoch) ^ sample);
  constexpr int kPlaces = 2 * kCropPadding + 1;
  return {share_of(bits, kPlaces), share_of(bits >> 24U, kPlaces), (bits >> 63U) != 0};
}

void place_image(const std::uint8_t* pixels, const Placement& placement, std::uint8_t* out) {
  constexpr int kSide = kCifarSide;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const int h = row + placement.top - kCropPadding;
      // The cut is mirrored, not the image.
      const int w =
          (placement.mirrored ? kSide - 1 - column : column) + placement.left - kCropPadding;
      const bool inside = h >= 0 && h < kSide && w >= 0 && w < kSide;
      for (int colour = 0; colour < kCifarColours; ++colour, ++out) {
        *out = inside ? pixels[(colour * kSide + h) * kSide + w] : std::uint8_t{0};
      }
    }
  }
}

}  // namespace ddp
