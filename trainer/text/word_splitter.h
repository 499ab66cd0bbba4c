// WordSplitter: cuts text into the words within which byte pairs are merged, by GPT-2's pattern
// (openai/gpt-2, encoder.py):
//
//     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// \s is Unicode's White_Space; \p{L} and \p{N} are those of the Unicode version of the PCRE2
// library. Every character of a text belongs to exactly one word.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

namespace ddp {

/// Not thread-safe.
class WordSplitter {
 public:
  /// Throws ddp::Error when PCRE2 has no memory or no Unicode.
  WordSplitter();
  ~WordSplitter();
  WordSplitter(const WordSplitter&) = delete;
  WordSplitter& operator=(const WordSplitter&) = delete;

  /// Where the word ends that begins at `first`, which is below the size. The text is well-formed
  /// UTF-8, and `first` is where a word before it ended, or 0.
  std::size_t word_end(std::string_view text, std::size_t first);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Where a text longer than `limit` may be cut in two whose words, one after the other, are those
/// of the whole: between a character that is no white space and a white space of ASCII. (No word
/// goes on there: white space in a word comes before all else. And no word before it looks further:
/// the one lookahead of the pattern stands behind white space.) The last such place up to `limit`,
/// else the first one behind it, else the size of the text. Never 0 unless the text is empty. Any
/// bytes are a text.
std::size_t safe_cut(std::string_view text, std::size_t limit);

}  // namespace ddp
