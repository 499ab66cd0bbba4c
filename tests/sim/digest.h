// Digest: 64 bits of a sequence of numbers and texts (FNV-1a, then mixed), for an exploration to
// know a state again.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace ddprun::sim {

class Digest {
 public:
  Digest& add(std::integral auto number) {
    value_ = (value_ ^ static_cast<std::uint64_t>(number)) * 0x9E3779B97F4A7C15U;
    value_ ^= value_ >> 29U;
    return *this;
  }
  Digest& add(std::string_view text) {
    for (const char byte : text) {
      value_ = (value_ ^ static_cast<unsigned char>(byte)) * 0x100000001B3U;
    }
    return add(text.size());
  }
  /// Sums of these stand for sets: the order does not matter.
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t z = value_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325U;
};

}  // namespace ddprun::sim
