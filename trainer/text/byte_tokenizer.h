// ByteTokenizer: each byte is a token, so it needs no vocabulary file and knows every text.
#pragma once

#include "trainer/text/tokenizer.h"

namespace ddp {

/// Tokens 0 .. 255 are the bytes; 256 is the end of a text.
class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr std::int32_t kEndOfText = 256;

  [[nodiscard]] std::int32_t vocabulary_size() const override;
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const override;
  /// The end of a text decodes to nothing.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const override;
  [[nodiscard]] std::optional<std::int32_t> end_of_text() const override;
};

}  // namespace ddp
