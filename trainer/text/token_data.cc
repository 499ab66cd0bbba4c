#include "trainer/text/token_data.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ddp/error.h"

namespace ddp {
namespace {

void require_index(std::size_t index, std::size_t count, const char* kind) {
  if (index >= count) {
    throw InvalidArgument(fmt::format("there are {} {} samples, no {}", count, kind, index));
  }
}

}  // namespace

TokenData::TokenData(std::vector<TokenFile> files, TokenDataOptions options)
    : files_(std::move(files)), begins_{0}, options_(options) {
  if (options_.sequence_length < 1 || !(options_.validation_share >= 0) ||
      options_.validation_share >= 1) {
    throw InvalidArgument(
        "samples need a sequence length of at least 1 and a validation share from 0 to below 1");
  }
  for (const auto& file : files_) {
    begins_.push_back(begins_.back() + file.tokens.size());
  }
  const bool validates = options_.validation_share > 0;
  const std::size_t samples =
      token_count() == 0 ? 0 : (token_count() - 1) / options_.sequence_length;
  const std::size_t needed = validates ? 2 : 1;
  if (samples < needed) {
    throw Error(fmt::format(
        "the data has {} tokens, and {} need {}; give more text, or a smaller sequence length",
        token_count(),
        validates ? "one sample for training and one for validation" : "one sample for training",
        needed * options_.sequence_length + 1));
  }
  const auto share = std::llround(static_cast<double>(samples) * options_.validation_share);
  validation_samples_ =
      validates ? std::clamp<std::size_t>(static_cast<std::size_t>(share), 1, samples - 1) : 0;
  train_samples_ = samples - validation_samples_;
}

/// Samples follow each other without a gap, so the number is the place.
void TokenData::read_train(std::size_t index, std::span<std::int32_t> inputs,
                           std::span<std::int32_t> targets) const {
  require_index(index, train_samples_, "training");
  read(index, inputs, targets);
}

/// They lie behind those that are trained on.
void TokenData::read_validation(std::size_t index, std::span<std::int32_t> inputs,
                                std::span<std::int32_t> targets) const {
  require_index(index, validation_samples_, "validation");
  read(train_samples_ + index, inputs, targets);
}

void TokenData::read(std::size_t sample, std::span<std::int32_t> inputs,
                     std::span<std::int32_t> targets) const {
  const std::size_t length = options_.sequence_length;
  if (inputs.size() != length || targets.size() != length) {
    throw InvalidArgument(fmt::format("a sample has {} inputs and as many targets", length));
  }
  const std::size_t first = sample * length;
  read_tokens(first, inputs);
  std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
  read_tokens(first + length, targets.last(1));
}

void TokenData::read_tokens(std::size_t first, std::span<std::int32_t> to) const {
  // The last file that begins at or before `first`; those without tokens begin where the next does.
  auto file = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), first) -
                                       begins_.begin() - 1);
  while (!to.empty()) {
    const std::size_t inside = first - begins_[file];
    const std::size_t count = std::min(to.size(), begins_[file + 1] - first);
    const auto part = to.first(count);
    files_[file].map.require_whole();
    files_[file].tokens.read(inside, part);
    // A model looks tokens up in a table: one beyond it would read the memory behind.
    require_known(files_[file].path, inside, part, options_.vocabulary_size);
    to = to.subspan(count);
    first += count;
    ++file;
  }
}

std::uint64_t TokenData::validation_bytes(const Tokenizer& tokenizer, std::size_t first,
                                          std::size_t end) const {
  if (first > end || end > validation_samples_) {
    throw InvalidArgument(fmt::format("there are {} validation samples, no range from {} to {}",
                                      validation_samples_, first, end));
  }
  // Each token's number of bytes, when it is met first: a vocabulary may have numbers without one.
  constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  std::vector<std::uint32_t> sizes(static_cast<std::size_t>(tokenizer.vocabulary_size()), kUnknown);
  if (const auto end_of_text = tokenizer.end_of_text()) {
    sizes[static_cast<std::size_t>(*end_of_text)] = 0;
  }
  std::vector<std::int32_t> inputs(options_.sequence_length);
  std::vector<std::int32_t> targets(options_.sequence_length);
  std::uint64_t bytes = 0;
  for (std::size_t sample = first; sample < end; ++sample) {
    read_validation(sample, inputs, targets);
    for (const auto token : targets) {
      if (static_cast<std::size_t>(token) >= sizes.size()) {
        throw Error(
            fmt::format("the data has the token {}, which the tokenizer does not have; give the "
                        "tokenizer that made the data",
                        token));
      }
      auto& size = sizes[static_cast<std::size_t>(token)];
      if (size == kUnknown) {
        size = static_cast<std::uint32_t>(tokenizer.decode({&token, 1}).size());
      }
      bytes += size;
    }
  }
  return bytes;
}

}  // namespace ddp
