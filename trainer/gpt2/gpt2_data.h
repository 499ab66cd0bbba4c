// Gpt2Data: the samples that a GPT-2 trains on and is measured with (trainer/text/token_data.h),
// and what a run remembers of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/text/token_data.h"
#include "trainer/text/token_file.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

class Gpt2Data {
 public:
  /// As TokenData's. `tokenizer`: that of the tokens; null where it is not known.
  Gpt2Data(std::vector<TokenFile> files, const Tokenizer* tokenizer,
           const TokenDataOptions& options);

  [[nodiscard]] std::size_t time() const { return time_; }
  [[nodiscard]] std::size_t train_samples() const { return tokens_.train_samples(); }
  [[nodiscard]] std::size_t validation_samples() const { return tokens_.validation_samples(); }
  /// T inputs and T targets of a sample.
  void read_train(std::size_t sample, std::span<std::int32_t> inputs,
                  std::span<std::int32_t> targets) const {
    tokens_.read_train(sample, inputs, targets);
  }
  void read_validation(std::size_t sample, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const {
    tokens_.read_validation(sample, inputs, targets);
  }
  /// Bytes of text that the targets of all validation samples stand for; 0 where nobody knows.
  [[nodiscard]] std::uint64_t validation_bytes() const { return validation_bytes_; }
  /// Of tokens and cut: two runs with the same one train on the same samples.
  [[nodiscard]] const std::string& fingerprint() const { return fingerprint_; }

 private:
  std::size_t time_;
  std::string fingerprint_;
  TokenData tokens_;
  std::uint64_t validation_bytes_ = 0;
};

/// Of a validation loss per token, ", 2.1006 per byte"; empty where nobody knows the bytes.
std::string per_byte_text(const Gpt2Data& data, double loss);

}  // namespace ddp
