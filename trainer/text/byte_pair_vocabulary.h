// BytePairVocabulary: the tokens, merges and added tokens of a byte-level byte-pair tokenizer, read
// from the texts of its files. Pure. Two forms of files are known (docs/text.md):
//   - tokenizer.json of Hugging Face's tokenizers: the model BPE behind the pre-tokenizer
//   ByteLevel;
//   - vocab.json and merges.txt, as GPT-2 came with them.
// In both a token is written in the alphabet of GPT-2's bytes_to_unicode() (openai/gpt-2,
// encoder.py), which gives each of the 256 bytes a character that can be seen.
//
// Errors are ddp::Error with one sentence that begins with the file's name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// Two neighbours that become one token. Of two merges the one with the lower rank comes first.
struct Merge {
  std::int32_t rank = 0;
  std::int32_t token = 0;
};

/// (left, right) -> Merge, as one flat table: it is asked twice for every merge of every new word.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges_max = 0);
  /// Overwrites an earlier merge of the same two. At most merges_max different ones.
  void insert(std::int32_t left, std::int32_t right, Merge merge);
  /// Null when the two do not merge.
  [[nodiscard]] const Merge* find(std::int32_t left, std::int32_t right) const {
    const auto& slot = slots_[slot_of(key_of(left, right))];
    return slot.key == kFree ? nullptr : &slot.merge;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // two tokens of -1: no merge's
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U |
           static_cast<std::uint32_t>(right);
  }
  /// Where the key is, or the free slot where it would be.
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const {
    // Fibonacci hashing: the upper bits of the product depend on all bits of the key.
    std::size_t at = (key * 0x9E3779B97F4A7C15) >> shift_;
    while (slots_[at].key != kFree && slots_[at].key != key) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }

  unsigned shift_;
  std::vector<Slot> slots_;  ///< a power of two, at most half full: each search meets a free one
};

/// A text that is always one token, wherever it stands.
struct AddedToken {
  std::string text;
  std::int32_t token = 0;
  /// Looked for after all those that are not: Hugging Face's libraries search in two turns.
  bool normalized = false;
};

struct BytePairVocabulary {
  /// What each token stands for; empty where a number is not in use.
  std::vector<std::string> tokens;
  /// The token of each single byte.
  std::array<std::int32_t, 256> byte_tokens{};
  MergeTable merges;
  std::vector<AddedToken> added;
  /// "<|endoftext|>", where there is such a token.
  std::optional<std::int32_t> end_of_text;
};

struct NamedText {
  std::string name;  ///< of the file, for the errors
  std::string_view text;
};

/// Throws on what is no tokenizer.json, on a vocabulary that is not consistent (a merge of unknown
/// tokens, two tokens of one number, a byte without a token), and on all that would change the
/// tokens and is not done here: it names that.
BytePairVocabulary parse_tokenizer_json(const NamedText& file);
/// The same for the older form. "<|endoftext|>", when it is in the vocabulary, is an added token.
BytePairVocabulary parse_vocabulary_and_merges(const NamedText& vocabulary,
                                               const NamedText& merges);

/// Tokens from this number on are refused: a slip in a file must not take all memory.
inline constexpr std::int32_t kTokensMax = 1 << 24;

}  // namespace ddp
