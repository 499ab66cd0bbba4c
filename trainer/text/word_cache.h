// WordCache: the tokens of the words that were met last, so that a word is merged once and not each
// time. A word has one place, by its hash, and drives out what was there: the memory is bounded and
// nothing is ever searched. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace ddp {

/// Not thread-safe.
class WordCache {
 public:
  /// A longer word is rare, and so is one of more tokens: an entry is one cache line.
  static constexpr std::size_t kWordBytesMax = 22;
  static constexpr std::size_t kTokensMax = 10;

  /// The memory, 4 MiB, is taken at once; `slots` is a power of two.
  explicit WordCache(std::size_t slots = std::size_t{1} << 16U) : entries_(slots) {}

  /// Empty when it is not there. The view holds until the next add().
  [[nodiscard]] std::span<const std::int32_t> find(std::string_view word) const {
    if (word.size() > kWordBytesMax) {
      return {};
    }
    const Entry& entry = entries_[slot_of(word)];
    const bool same =
        entry.size == word.size() && std::memcmp(entry.word.data(), word.data(), word.size()) == 0;
    return {entry.tokens.data(), same ? entry.count : std::size_t{0}};
  }

  /// A word or tokens too long for an entry are left out.
  void add(std::string_view word, std::span<const std::int32_t> tokens) {
    if (word.size() > kWordBytesMax || tokens.size() > kTokensMax) {
      return;
    }
    Entry& entry = entries_[slot_of(word)];
    entry.size = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(tokens.size());
    std::copy(word.begin(), word.end(), entry.word.begin());
    std::copy(tokens.begin(), tokens.end(), entry.tokens.begin());
  }

 private:
  struct alignas(64) Entry {
    std::uint8_t size = 0;  ///< of the word; 0: free
    std::uint8_t count = 0;
    std::array<char, kWordBytesMax> word;
    std::array<std::int32_t, kTokensMax> tokens;
  };
  static_assert(sizeof(Entry) == 64);

  [[nodiscard]] std::size_t slot_of(std::string_view word) const {
    // Eight bytes at a time, each mixed into all bits that come after it.
    std::uint64_t hash = word.size() * 0x9E3779B97F4A7C15;
    for (std::size_t at = 0; at < word.size(); at += 8) {
      std::uint64_t part = 0;
      std::memcpy(&part, word.data() + at, std::min<std::size_t>(8, word.size() - at));
      hash = (hash ^ part) * 0xD1B54A32D192ED03;
      hash ^= hash >> 29U;
    }
    return (hash ^ (hash >> 32U)) & (entries_.size() - 1);
  }

  std::vector<Entry> entries_;
};

}  // namespace ddp
