// A hash by which two runs, or two ranks' data, are compared. No protection against forgery.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ddp {

/// XXH3 of 64 bits over the bytes of all parts, one after the other, as sixteen digits.
std::string fingerprint(std::span<const std::span<const std::byte>> parts);

/// Of vectors of numbers.
template <class T>
std::string fingerprint(const std::vector<std::vector<T>>& parts) {
  std::vector<std::span<const std::byte>> bytes;
  for (const auto& part : parts) {
    bytes.push_back(std::as_bytes(std::span<const T>(part)));
  }
  return fingerprint(bytes);
}

}  // namespace ddp
