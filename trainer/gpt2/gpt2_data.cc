#include "trainer/gpt2/gpt2_data.h"

#include <algorithm>

#include "ddp/error.h"
#include "trainer/fingerprint.h"

namespace ddp {

Gpt2Data::Gpt2Data(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                   std::size_t time, double validation_share)
    : time_(time) {
  for (const std::string& text : texts) {
    const auto more = tokenizer.encode(text);
    tokens_.insert(tokens_.end(), more.begin(), more.end());
    if (const auto end = tokenizer.end_of_text()) {
      tokens_.push_back(*end);
    }
  }
  const std::size_t samples = tokens_.empty() ? 0 : (tokens_.size() - 1) / time;
  const std::size_t needed = validation_share > 0 ? 2 : 1;
  if (samples < needed) {
    throw Error("the text has " + std::to_string(tokens_.size()) + " tokens, and " +
                std::to_string(needed * time + 1) +
                " are needed; give more text, or a smaller --seq-length");
  }
  if (validation_share > 0) {
    const auto share = static_cast<std::size_t>(static_cast<double>(samples) * validation_share);
    validation_samples_ = std::clamp<std::size_t>(share, 1, samples - 1);
  }
  train_samples_ = samples - validation_samples_;
  const auto targets =
      std::span(tokens_).subspan(train_samples_ * time + 1, validation_samples_ * time);
  validation_bytes_ = tokenizer.decode(targets).size();
}

void Gpt2Data::read_train(std::size_t sample, std::span<std::int32_t> inputs,
                          std::span<std::int32_t> targets) const {
  const auto first = tokens_.begin() + static_cast<std::ptrdiff_t>(sample * time_);
  std::copy_n(first, time_, inputs.begin());
  std::copy_n(first + 1, time_, targets.begin());
}

void Gpt2Data::read_validation(std::size_t sample, std::span<std::int32_t> inputs,
                               std::span<std::int32_t> targets) const {
  read_train(train_samples_ + sample, inputs, targets);
}

std::string Gpt2Data::fingerprint() const {
  Fingerprint all;
  all.add(tokens_);
  all.add(std::vector<std::int32_t>{static_cast<std::int32_t>(time_),
                                    static_cast<std::int32_t>(train_samples_)});
  return all.text();
}

}  // namespace ddp
