#include "trainer/resnet/augmentation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <vector>

#include "trainer/resnet/cifar.h"

namespace ddp {
namespace {

/// Every pixel of red tells where it is: 32 row + column, modulo 251.
std::vector<std::uint8_t> numbered_image() {
  std::vector<std::uint8_t> pixels(kCifarPixels);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i % 1024 % 251);
  }
  return pixels;
}

/// The red value at a place of what the network sees.
int seen(const std::vector<std::uint8_t>& out, int row, int column) {
  return out[(static_cast<std::size_t>(row) * 32 + static_cast<std::size_t>(column)) * 3];
}

std::vector<std::uint8_t> placed(const Placement& placement) {
  std::vector<std::uint8_t> out(kCifarPixels);
  place_image(numbered_image().data(), placement, out.data());
  return out;
}

int pixel(int row, int column) {
  return (row * 32 + column) % 251;
}

}  // namespace

TEST_CASE("without a shift the image is as it was, pixel by pixel", "[resnet]") {
  const auto out = placed({});
  CHECK(seen(out, 0, 0) == pixel(0, 0));
  CHECK(seen(out, 5, 7) == pixel(5, 7));
  CHECK(seen(out, 31, 31) == pixel(31, 31));
}

TEST_CASE("a shift brings black pixels in from the side", "[resnet]") {
  const auto out = placed({0, 2 * kCropPadding, false});
  CHECK(seen(out, 3, 10) == 0);
  CHECK(seen(out, 4, 0) == pixel(0, 4));
  CHECK(seen(out, 31, 27) == pixel(27, 31));
  CHECK(seen(out, 31, 28) == 0);
}

TEST_CASE("a mirrored cut is the cut from right to left", "[resnet]") {
  const auto plain = placed({1, 6, false});
  const auto mirrored = placed({1, 6, true});
  for (int column = 0; column < 32; ++column) {
    CHECK(seen(mirrored, 9, column) == seen(plain, 9, 31 - column));
  }
}

TEST_CASE("placements depend on seed, epoch and sample, and each is as likely", "[resnet]") {
  CHECK(random_placement(1, 2, 3) == random_placement(1, 2, 3));
  std::map<int, int> tops;
  std::map<int, int> lefts;
  int mirrored = 0;
  int like_before = 0;
  constexpr int kSamples = 18000;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const auto placement = random_placement(0, 0, sample);
    ++tops[placement.top];
    ++lefts[placement.left];
    mirrored += placement.mirrored ? 1 : 0;
    like_before += placement == random_placement(0, 1, sample) ? 1 : 0;
    like_before += placement == random_placement(1, 0, sample) ? 1 : 0;
  }
  for (const auto* counts : {&tops, &lefts}) {
    REQUIRE(counts->size() == 9);
    CHECK(counts->begin()->first == 0);
    for (const auto& [place, count] : *counts) {
      CHECK(std::abs(count - kSamples / 9) < 250);  // six standard deviations
    }
  }
  CHECK(std::abs(mirrored - kSamples / 2) < 400);
  CHECK(std::abs(like_before - 2 * kSamples / 162) < 90);
}

}  // namespace ddp
