// TokenBuffer: the memory that samples are read into, a batch at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "trainer/gpt2/gpt2_data.h"
#include "trainer/gpt2/model.h"

namespace ddp {

class TokenBuffer {
 public:
  /// Room for `batch` samples of `data`, which must outlive it.
  TokenBuffer(const Gpt2Data& data, std::size_t batch)
      : data_(&data), inputs_(batch * data.time()), targets_(batch * data.time()) {}

  /// Samples of the part that is trained on. Good until the next call of any of these.
  TokenBatch train(std::span<const std::size_t> samples) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
      data_->read_train(samples[i], row(inputs_, i), row(targets_, i));
    }
    return batch(samples.size());
  }
  /// The validation samples first, first + step, first + 2 step, ..., as many as there is room for.
  TokenBatch validation(std::size_t first, std::size_t step) {
    std::size_t count = 0;
    const std::size_t room = inputs_.size() / data_->time();
    for (auto i = first; count < room && i < data_->validation_samples(); i += step) {
      data_->read_validation(i, row(inputs_, count), row(targets_, count));
      ++count;
    }
    return batch(count);
  }

  /// Targets of a batch that count.
  static std::size_t counted(const TokenBatch& batch) {
    return batch.targets.size() - static_cast<std::size_t>(std::count(
                                      batch.targets.begin(), batch.targets.end(), kIgnoredTarget));
  }

 private:
  [[nodiscard]] std::span<std::int32_t> row(std::vector<std::int32_t>& tokens,
                                            std::size_t i) const {
    return std::span(tokens).subspan(i * data_->time(), data_->time());
  }
  [[nodiscard]] TokenBatch batch(std::size_t samples) const {
    const std::size_t count = samples * data_->time();
    return {std::span(inputs_).first(count), std::span(targets_).first(count), samples,
            data_->time()};
  }

  const Gpt2Data* data_;
  std::vector<std::int32_t> inputs_;   // (B, T)
  std::vector<std::int32_t> targets_;  // (B, T)
};

}  // namespace ddp
