// TokenData: one long sequence of tokens, cut into the samples that a language model learns from.
// Sample i begins at token i x T and has T + 1 tokens: T inputs, and as targets the same shifted by
// one. So each token but the first is a target once. The samples at the end, a given share, are
// held out for validation. Samples are read by their number (ddp::DistributedSampler gives those).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/text/token_file.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

struct TokenDataOptions {
  /// T: inputs of one sample; at least 1.
  std::size_t sequence_length = 1024;
  /// Share of the samples that is held out, from 0 to below 1. Above 0 it is at least one sample.
  double validation_share = 0.1;
  /// Of the model: a token that it does not have is refused when it is read.
  std::int32_t vocabulary_size = 50257;
};

class TokenData {
 public:
  /// The files' tokens one after the other. Throws ddp::Error when they are fewer than one sample
  /// (two with validation) needs.
  TokenData(std::vector<TokenFile> files, TokenDataOptions options);

  [[nodiscard]] std::size_t token_count() const { return begins_.back(); }
  [[nodiscard]] std::size_t train_samples() const { return train_samples_; }
  [[nodiscard]] std::size_t validation_samples() const { return validation_samples_; }

  /// Fills T inputs and T targets of a training sample. Throws InvalidArgument on a number or a
  /// size that is out of range, Error on a token that the model does not have (it names file and
  /// place).
  void read_train(std::size_t index, std::span<std::int32_t> inputs,
                  std::span<std::int32_t> targets) const;
  void read_validation(std::size_t index, std::span<std::int32_t> inputs,
                       std::span<std::int32_t> targets) const;

  /// Bytes of text that the targets of validation samples [first, end) stand for: nats per byte are
  /// the sum of their losses over this. The end of a text stands for none.
  [[nodiscard]] std::uint64_t validation_bytes(const Tokenizer& tokenizer, std::size_t first,
                                               std::size_t end) const;

 private:
  void read(std::size_t sample, std::span<std::int32_t> inputs,
            std::span<std::int32_t> targets) const;
  void read_tokens(std::size_t first, std::span<std::int32_t> to) const;

  std::vector<TokenFile> files_;
  std::vector<std::size_t> begins_;  ///< of each file in the sequence, and its end
  TokenDataOptions options_;
  std::size_t train_samples_ = 0;
  std::size_t validation_samples_ = 0;
};

}  // namespace ddp
