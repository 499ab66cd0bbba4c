#include "trainer/text/byte_pair_vocabulary.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "ddp/error.h"
#include "rendezvous/base/utf8.h"
#include "trainer/text/json_reason.h"

namespace ddp {
namespace {

using nlohmann::json;

constexpr char kEndOfText[] = "<|endoftext|>";

[[noreturn]] void fail(const NamedText& file, const std::string& what) {
  throw Error(file.name + ": " + what);
}

/// A token may be long, or hold anything; a sentence shows its beginning.
std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 40;
  if (text.size() <= kShown) {
    return "'" + std::string(text) + "'";
  }
  std::size_t end = kShown;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) {
    --end;  // never in the middle of a character
  }
  return "'" + std::string(text.substr(0, end)) + "...'";
}

/// GPT-2's alphabet: what can be seen in Latin-1 is itself, every other byte comes behind U+00FF.
bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::size_t kAlphabetEnd = 256 + 68;  // 68 bytes do not stand for themselves

std::array<char32_t, 256> characters_of_bytes() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    characters[byte] = stands_for_itself(byte) ? byte : next++;
  }
  return characters;
}

/// The bytes that a token's text stands for; a text with a character outside of the alphabet stands
/// for itself (as Hugging Face's ByteLevel decoder has it).
std::string bytes_of_token(const std::string& text) {
  static const auto bytes = [] {
    std::array<int, kAlphabetEnd> result{};
    result.fill(-1);
    const auto characters = characters_of_bytes();
    for (std::size_t byte = 0; byte < characters.size(); ++byte) {
      result[characters[byte]] = static_cast<int>(byte);
    }
    return result;
  }();
  std::string result;
  std::string_view rest = text;
  while (!rest.empty()) {
    const char32_t character = ddprun::first_code_point(rest);
    if (character >= kAlphabetEnd || bytes[character] < 0) {
      return text;
    }
    result += static_cast<char>(bytes[character]);
    rest.remove_prefix(std::max<std::size_t>(ddprun::utf8_sequence_length(rest), 1));
  }
  return result;
}

json parse(const NamedText& file) {
  try {
    return json::parse(file.text);
  } catch (const json::exception& problem) {
    fail(file, "is no valid JSON: " + json_reason(problem));
  }
}

/// Numbers of the tokens by their text in the files.
using Numbers = std::unordered_map<std::string, std::int32_t>;

/// Also makes place in `vocabulary` for the number.
std::int32_t checked_number(const NamedText& file, const std::string& text, const json& number,
                            BytePairVocabulary& vocabulary) {
  if (!number.is_number_integer() || number < 0 || number >= kTokensMax) {
    fail(file, fmt::format("the token {} must have a whole number from 0 to {}", shown(text),
                           kTokensMax - 1));
  }
  const auto token = number.get<std::int32_t>();
  if (static_cast<std::size_t>(token) >= vocabulary.tokens.size()) {
    vocabulary.tokens.resize(static_cast<std::size_t>(token) + 1);
  }
  return token;
}

Numbers read_tokens(const NamedText& file, const json& vocab, BytePairVocabulary& vocabulary) {
  if (!vocab.is_object() || vocab.empty()) {
    fail(file, "the vocabulary must be an object of tokens and their numbers");
  }
  Numbers numbers;
  numbers.reserve(vocab.size());
  for (const auto& [text, number] : vocab.items()) {
    const auto token = checked_number(file, text, number, vocabulary);
    auto& bytes = vocabulary.tokens[static_cast<std::size_t>(token)];
    if (!bytes.empty() || text.empty()) {
      fail(file, text.empty()
                     ? "a token is empty"
                     : fmt::format("the token {} has the number {}, which another has, too",
                                   shown(text), token));
    }
    bytes = bytes_of_token(text);
    numbers.emplace(text, token);
  }
  // A vocabulary without some byte would lose it where it stands in a text.
  const auto characters = characters_of_bytes();
  for (std::size_t byte = 0; byte < characters.size(); ++byte) {
    std::string text;
    ddprun::append_utf8(text, characters[byte]);
    const auto found = numbers.find(text);
    if (found == numbers.end()) {
      fail(file,
           fmt::format(
               "has no token for the byte {} ({}); only byte-level vocabularies are supported",
               byte, shown(text)));
    }
    vocabulary.byte_tokens[byte] = found->second;
  }
  return numbers;
}

/// Adds the merge `left right` with the next rank; `where` names it in the errors.
void add_merge(const NamedText& file, const std::string& where, const std::string& left,
               const std::string& right, std::int32_t rank, const Numbers& numbers,
               BytePairVocabulary& vocabulary) {
  const auto number_of = [&](const std::string& text) {
    const auto found = numbers.find(text);
    if (found == numbers.end()) {
      fail(file, where + " speaks of " + shown(text) + ", which is not in the vocabulary");
    }
    return found->second;
  };
  const auto result = number_of(left + right);
  vocabulary.merges.insert(number_of(left), number_of(right), {rank, result});
}

/// "left right", with one blank, as merges.txt and older tokenizer.json files have it.
std::pair<std::string, std::string> split_merge(const NamedText& file, const std::string& where,
                                                std::string_view text) {
  const auto blank = text.find(' ');
  if (blank == std::string_view::npos || text.find(' ', blank + 1) != std::string_view::npos) {
    fail(file, where + " must be two tokens with a blank between them, but is " + shown(text));
  }
  return {std::string(text.substr(0, blank)), std::string(text.substr(blank + 1))};
}

void read_merges(const NamedText& file, const json& merges, const Numbers& numbers,
                 BytePairVocabulary& vocabulary) {
  if (!merges.is_array()) {
    fail(file, "the model's merges must be an array");
  }
  vocabulary.merges = MergeTable(merges.size());
  std::int32_t rank = 0;
  for (const auto& merge : merges) {
    const std::string where = "merge " + std::to_string(rank + 1);
    std::pair<std::string, std::string> pair;
    if (merge.is_string()) {
      pair = split_merge(file, where, merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      pair = {merge[0].get<std::string>(), merge[1].get<std::string>()};
    } else {
      fail(file, where + " must be a text or an array of two texts");
    }
    add_merge(file, where, pair.first, pair.second, rank++, numbers, vocabulary);
  }
}

/// The name of a part of the pipeline; empty where there is none.
std::string type_of(const json& parts, const char* part) {
  const auto found = parts.find(part);
  if (found == parts.end() || found->is_null()) {
    return "";
  }
  const auto type = found->find("type");
  return type != found->end() && type->is_string() ? type->get<std::string>() : "without a type";
}

void refuse(const NamedText& file, const std::string& what) {
  fail(file, "asks for " + what + ", which is not supported");
}

/// True for what is missing, null, false, 0 or "".
bool is_off(const json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() || *found == false || *found == 0 ||
         *found == "";
}

/// Throws unless the pipeline is GPT-2's: all that is refused here would give other tokens.
void check_pipeline(const NamedText& file, const json& root) {
  if (const auto type = type_of(root, "normalizer"); !type.empty()) {
    refuse(file, "the normalizer " + shown(type));
  }
  if (const auto type = type_of(root, "pre_tokenizer"); type != "ByteLevel") {
    refuse(file, type.empty() ? "no pre-tokenizer (only 'ByteLevel' is known)"
                              : "the pre-tokenizer " + shown(type));
  }
  const auto& pre_tokenizer = root.at("pre_tokenizer");
  if (!is_off(pre_tokenizer, "add_prefix_space")) {
    refuse(file, "the pre-tokenizer's option 'add_prefix_space'");
  }
  if (pre_tokenizer.contains("use_regex") && is_off(pre_tokenizer, "use_regex")) {
    refuse(file, "the pre-tokenizer's option 'use_regex' switched off");
  }
  // ByteLevel as post-processor shifts offsets alone, which nobody asks for here.
  for (const char* part : {"post_processor", "decoder"}) {
    if (const auto type = type_of(root, part); !type.empty() && type != "ByteLevel") {
      refuse(file, std::string("the ") + part + " " + shown(type));
    }
  }
  for (const char* part : {"truncation", "padding"}) {
    if (!is_off(root, part)) {
      refuse(file, std::string("the option '") + part + "'");
    }
  }
  const auto& model = root.at("model");
  if (const auto type = type_of(root, "model"); type != "BPE" && model.contains("type")) {
    refuse(file, "the model " + shown(type));
  }
  // unk_token, fuse_unk and byte_fallback are about what the vocabulary lacks: here, nothing.
  for (const char* option :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"}) {
    if (!is_off(model, option)) {
      refuse(file, std::string("the model's option '") + option + "'");
    }
  }
}

/// A cut of a long text (safe_cut) never falls into such a token.
bool has_space_inside(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const auto first = text.find_first_not_of(kSpaces);
  return first != std::string_view::npos &&
         text.find_first_of(kSpaces, first) != std::string_view::npos;
}

/// What Hugging Face's tokenizers give an added token that the vocabulary does not have, whatever
/// number the file says (added_vocabulary.rs, add_tokens).
std::int32_t next_number(const Numbers& numbers, const BytePairVocabulary& vocabulary) {
  auto next = static_cast<std::int32_t>(numbers.size());
  for (const auto& added : vocabulary.added) {
    next = std::max(next, added.token + 1);
  }
  return next;
}

void read_added_token(const NamedText& file, const json& entry, const Numbers& numbers,
                      BytePairVocabulary& vocabulary) {
  const auto text = entry.at("content").get<std::string>();
  for (const char* option : {"single_word", "lstrip", "rstrip"}) {
    if (!is_off(entry, option)) {
      refuse(file, std::string("the option '") + option + "' of the added token " + shown(text));
    }
  }
  if (has_space_inside(text)) {
    refuse(file, "the added token " + shown(text) + " with white space behind other characters");
  }
  if (text.empty()) {
    fail(file, "an added token is empty");
  }
  const auto token = checked_number(file, text, entry.at("id"), vocabulary);
  auto& bytes = vocabulary.tokens[static_cast<std::size_t>(token)];
  const auto known = numbers.find(text);
  if (known != numbers.end() ? known->second != token : !bytes.empty()) {
    fail(file,
         fmt::format("the added token {} has the number {}, which the vocabulary gives to another",
                     shown(text), token));
  }
  if (const auto next = next_number(numbers, vocabulary); known == numbers.end() && token != next) {
    fail(file,
         fmt::format("the added token {} has the number {}, and the next free one is {}, which "
                     "Hugging Face's tokenizers give it",
                     shown(text), token, next));
  }
  // Literally, whatever the alphabet makes of it: decoding gives the text that was found.
  bytes = text;
  vocabulary.added.push_back({text, token, !is_off(entry, "normalized")});
}

void note_end_of_text(BytePairVocabulary& vocabulary) {
  for (const auto& added : vocabulary.added) {
    if (added.text == kEndOfText) {
      vocabulary.end_of_text = added.token;
    }
  }
}

}  // namespace

MergeTable::MergeTable(std::size_t merges_max) {
  const std::size_t slots = std::bit_ceil(2 * merges_max + 2);
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
  slots_.resize(slots);
}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const auto key = key_of(left, right);
  slots_[slot_of(key)] = {key, merge};
}

BytePairVocabulary parse_tokenizer_json(const NamedText& file) {
  const json root = parse(file);
  if (!root.is_object() || !root.contains("model") || !root["model"].is_object()) {
    fail(file, "is no tokenizer.json: it has no 'model'");
  }
  BytePairVocabulary vocabulary;
  try {
    check_pipeline(file, root);
    const auto& model = root.at("model");
    const auto numbers = read_tokens(file, model.value("vocab", json()), vocabulary);
    read_merges(file, model.value("merges", json()), numbers, vocabulary);
    for (const auto& entry : root.value("added_tokens", json::array())) {
      read_added_token(file, entry, numbers, vocabulary);
    }
  } catch (const json::exception& problem) {
    fail(file, "is not laid out as a tokenizer.json: " + json_reason(problem));
  }
  note_end_of_text(vocabulary);
  return vocabulary;
}

BytePairVocabulary parse_vocabulary_and_merges(const NamedText& vocabulary_file,
                                               const NamedText& merges_file) {
  BytePairVocabulary vocabulary;
  const auto numbers = read_tokens(vocabulary_file, parse(vocabulary_file), vocabulary);
  const std::string_view text = merges_file.text;
  vocabulary.merges =
      MergeTable(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1);
  std::int32_t rank = 0;
  std::size_t line_number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++line_number;
    line.remove_suffix(line.ends_with('\r') ? 1 : 0);
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    const std::string where = "line " + std::to_string(line_number);
    const auto [left, right] = split_merge(merges_file, where, line);
    add_merge(merges_file, where, left, right, rank++, numbers, vocabulary);
  }
  if (const auto found = numbers.find(kEndOfText); found != numbers.end()) {
    vocabulary.added.push_back({kEndOfText, found->second, false});
  }
  note_end_of_text(vocabulary);
  return vocabulary;
}

}  // namespace ddp
