// A byte-level vocabulary for tests: the 256 bytes, and a token for each merge that a test names.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/utf8.h"
#include "trainer/text/byte_pair_vocabulary.h"

namespace ddp_test {

using Merges = std::vector<std::pair<std::string, std::string>>;

/// A byte's character in the files, written as the paper's code has it, apart from the product's.
inline std::string character_of(int byte) {
  static const std::vector<std::string> characters = [] {
    std::vector<std::string> result;
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable =
          (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      std::string text;
      ddprun::append_utf8(text, printable ? static_cast<char32_t>(b) : next++);
      result.push_back(text);
    }
    return result;
  }();
  return characters.at(static_cast<std::size_t>(byte));
}

/// The bytes get the numbers 0 .. 255, the merges those from 256 on; a merge of an earlier one's
/// result is written by its text, a blank as "Ġ".
inline nlohmann::json vocabulary_json(const Merges& merges) {
  nlohmann::json vocab;
  for (int byte = 0; byte < 256; ++byte) {
    vocab[character_of(byte)] = byte;
  }
  int next = 256;
  for (const auto& [left, right] : merges) {
    vocab[left + right] = next++;
  }
  return vocab;
}

inline nlohmann::json tokenizer_json(const Merges& merges) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) {
    list.push_back(left + " " + right);
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}},
          {"post_processor", {{"type", "ByteLevel"}, {"trim_offsets", false}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocabulary_json(merges)}, {"merges", list}}}};
}

inline nlohmann::json added_token(const std::string& text, int number, bool normalized = false) {
  return {{"id", number},    {"content", text},          {"single_word", false},  {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", !normalized}};
}

inline ddp::BytePairVocabulary vocabulary_of(const nlohmann::json& file) {
  const std::string text = file.dump();
  return ddp::parse_tokenizer_json({"tokenizer.json", text});
}

/// Merges of common English beginnings, for texts with words in them.
inline Merges some_merges() {
  return {
      {"h", "e"},          {"l", "l"},           {"he", "ll"},         {"hell", "o"},
      {"\u0120", "hello"}, {"t", "he"},          {"a", "b"},           {"b", "c"},
      {"ab", "c"},         {"\u0120", "the"},    {"1", "2"},           {"12", "3"},
      {"'", "s"},          {"\u010a", "\u010a"}, {"\u0120", "\u0120"}, {"\u0120\u0120", "\u0120"}};
}

}  // namespace ddp_test
