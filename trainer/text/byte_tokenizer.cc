#include "trainer/text/byte_tokenizer.h"

#include <fmt/core.h>

#include "ddp/error.h"

namespace ddp {

Tokenizer::~Tokenizer() = default;

std::int32_t ByteTokenizer::vocabulary_size() const {
  return kEndOfText + 1;
}

std::vector<std::int32_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  tokens.reserve(text.size());
  for (const char c : text) {
    // char is signed here: a byte above 127 must not become a negative token.
    tokens.push_back(static_cast<unsigned char>(c));
  }
  return tokens;
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens) {
    if (token < 0 || token > kEndOfText) {
      throw InvalidArgument(fmt::format("token {} is none of bytes: 0 to {}", token, kEndOfText));
    }
    if (token != kEndOfText) {
      text += static_cast<char>(token);
    }
  }
  return text;
}

std::optional<std::int32_t> ByteTokenizer::end_of_text() const {
  return kEndOfText;
}

}  // namespace ddp
