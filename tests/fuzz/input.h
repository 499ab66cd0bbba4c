// Input: a fuzzer's bytes read as numbers and texts, and what a target says when it finds
// something.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace ddprun::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  /// 0 when nothing is left.
  std::uint8_t byte() {
    const std::string_view one = text(1);
    return one.empty() ? 0 : static_cast<std::uint8_t>(one.front());
  }
  /// At most `size` bytes.
  std::string_view text(std::size_t size) {
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view rest() { return text(bytes_.size()); }

 private:
  std::string_view bytes_;
};

/// A property that does not hold ends the run as a crash would.
inline void require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "property broken: %s\n", what);
    std::abort();
  }
}

/// Hands `bytes` to `take` in pieces whose sizes follow from `seed`; stops when it returns false.
template <class Take>
void in_pieces(std::string_view bytes, std::uint32_t seed, Take take) {
  while (!bytes.empty()) {
    seed = seed * 1'664'525U + 1'013'904'223U;
    const std::size_t size = std::min<std::size_t>(bytes.size(), 1 + (seed >> 24) % 40);
    if (!take(bytes.substr(0, size))) {
      return;
    }
    bytes.remove_prefix(size);
  }
}

}  // namespace ddprun::fuzz
