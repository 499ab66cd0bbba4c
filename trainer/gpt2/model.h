// Gpt2: the model of Radford et al. 2019 with explicit forward and backward passes. What it is not:
// an optimizer, or a training loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "trainer/gpt2/config.h"
#include "trainer/gpt2/passes.h"
#include "trainer/gpt2/token_batch.h"
#include "trainer/layers/cross_entropy.h"
#include "trainer/layers/layers.h"

namespace ddp {

/// Not thread-safe. The parameters' gradients must have been seated (DistributedDataParallel does
/// it) before backward() is called.
class Gpt2 {
 public:
  /// All weights 0: see initialise_gpt2(). Room for batches of up to `batch` x `time` tokens.
  /// Throws Error where the device has no such precision, or its attention does not take the heads'
  /// size.
  Gpt2(const Gpt2Config& config, std::size_t batch, std::size_t time, Device device = {},
       Precision precision = Precision::automatic);
  // The passes look at the parameters here.
  Gpt2(const Gpt2&) = delete;
  Gpt2& operator=(const Gpt2&) = delete;

  [[nodiscard]] const Gpt2Config& config() const { return config_; }
  [[nodiscard]] std::vector<Parameter>& parameters() { return parameters_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Returns the SUM of the losses (nats) of the targets that count.
  double loss(const TokenBatch& batch);
  /// The same, and makes ready for backward().
  double forward(const TokenBatch& batch);
  /// Adds the gradients of the sum of the last forward(batch) to those of the parameters. `ready`
  /// is told a parameter's place as soon as its gradient is complete, last layer first.
  void backward(const TokenBatch& batch, const std::function<void(std::size_t)>& ready,
                Gradients before = Gradients::sums);

  /// Logits (V) of the token that follows each sequence's last: for generating. `tokens` is (T) of
  /// one sequence. The span is overwritten by the next call of any of these.
  std::span<const float> next_logits(std::span<const std::int32_t> tokens);

 private:
  void check(const TokenBatch& batch) const;

  Gpt2Config config_;
  std::size_t batch_max_, time_max_;
  std::vector<Parameter> parameters_;
  std::unique_ptr<Gpt2Passes> passes_;
};

/// " | on GPUs in bf16", for the line that a run begins with; empty for f32 on CPUs.
const char* precision_text(Device device, Precision precision);

}  // namespace ddp
