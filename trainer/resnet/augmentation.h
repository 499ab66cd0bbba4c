// What the network sees of an image: cut out of a padded copy, and mirrored. Pure.
#pragma once

#include <cstdint>

namespace ddp {

inline constexpr int kCropPadding = 4;

/// Where the 32 x 32 cut begins in the image with kCropPadding black pixels on each side.
struct Placement {
  int top = kCropPadding;  ///< 0 to 2 kCropPadding
  int left = kCropPadding;
  bool mirrored = false;
  friend bool operator==(const Placement&, const Placement&) = default;
};

/// Depends on its arguments alone: any world size, and a run that was resumed, sees the same
/// image. All placements are equally likely.
Placement random_placement(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

/// `pixels` (3, 32, 32) of one image to `out` (32, 32, 3).
void place_image(const std::uint8_t* pixels, const Placement& placement, std::uint8_t* out);

}  // namespace ddp
