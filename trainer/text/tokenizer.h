// Tokenizer: text to numbers and back. What it is not: a reader of files, or of training data
// (each kind of tokenizer is a file of its own beside this one).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

/// Immutable: any number of threads may use one.
class Tokenizer {
 public:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;
  virtual ~Tokenizer();

  /// Tokens are 0 .. vocabulary_size() - 1.
  [[nodiscard]] virtual std::int32_t vocabulary_size() const = 0;
  /// The text's tokens; end_of_text() is not appended. Any bytes are a text.
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The inverse of encode(). A token outside of the vocabulary throws InvalidArgument.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// The token that stands between two texts; none where the vocabulary has none.
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_text() const = 0;
};

}  // namespace ddp
