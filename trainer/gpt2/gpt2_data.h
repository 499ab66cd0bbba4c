// Gpt2Data: the samples that a GPT-2 trains on and is measured with, cut out of one long row of
// tokens. Pure, and the same on every rank for the same texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace ddp {

class Gpt2Data {
 public:
  /// Texts one after the other, the token for the end of a text behind each where there is one.
  /// Sample i has the tokens i T .. i T + T - 1 as inputs, and as targets those one further on;
  /// what is left at the end belongs to no sample. The last `validation_share` (0 to below 1) of
  /// the samples, at least one where the share is above 0, is never trained on. Throws ddp::Error
  /// when there are too few tokens.
  Gpt2Data(const std::vector<std::string>& texts, const Tokenizer& tokenizer, std::size_t time,
           double validation_share);

  [[nodiscard]] std::size_t time() const { return time_; }
  [[nodiscard]] std::size_t train_samples() const { return train_samples_; }
  [[nodiscard]] std::size_t validation_samples() const { return validation_samples_; }

  /// T inputs and T targets of a sample.
  void read_train(std::size_t sample, std::span<std::int32_t> inputs,
                  std::span<std::int32_t> targets) const;
  void read_validation(std::size_t sample, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;

  /// Bytes of text that the targets of all validation samples stand for.
  [[nodiscard]] std::size_t validation_bytes() const { return validation_bytes_; }
  /// Of tokens and cut: two runs with the same one train on the same samples.
  [[nodiscard]] std::string fingerprint() const;

 private:
  std::vector<std::int32_t> tokens_;
  std::size_t time_;
  std::size_t train_samples_ = 0;
  std::size_t validation_samples_ = 0;
  std::size_t validation_bytes_ = 0;
};

}  // namespace ddp
