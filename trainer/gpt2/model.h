// Gpt2: the model of Radford et al. 2019 with explicit forward and backward passes, as lists of
// calls of trainer/layers. What it is not: an optimizer, or a training loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "trainer/gpt2/activations.h"
#include "trainer/gpt2/config.h"
#include "trainer/layers/layers.h"

namespace ddp {

/// B sequences of T tokens, row by row. Tokens and targets are in [0, V); a target may be
/// kIgnoredTarget.
struct TokenBatch {
  std::span<const std::int32_t> tokens;   ///< (B, T)
  std::span<const std::int32_t> targets;  ///< (B, T): what comes after each
  std::size_t batch = 0, time = 0;
};

/// Not thread-safe. The parameters' gradients must have been seated (DistributedDataParallel does
/// it) before backward() is called.
class Gpt2 {
 public:
  /// All weights 0: see initialise_gpt2(). Room for batches of up to `batch` x `time` tokens.
  /// Throws Error where the processor has no such precision.
  Gpt2(const Gpt2Config& config, std::size_t batch, std::size_t time, Device device = {},
       Precision precision = Precision::f32);

  [[nodiscard]] const Gpt2Config& config() const { return config_; }
  [[nodiscard]] std::vector<Parameter>& parameters() { return parameters_; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Returns the SUM of the losses (nats) of the targets that count.
  double loss(const TokenBatch& batch);
  /// The same, and makes ready for backward().
  double forward(const TokenBatch& batch);
  /// Adds the gradients of the sum of the last forward(batch) to those of the parameters. `ready`
  /// is told a parameter's place as soon as its gradient is complete, last layer first.
  void backward(const TokenBatch& batch, const std::function<void(std::size_t)>& ready);

  /// Logits (V) of the token that follows each sequence's last: for generating. `tokens` is (T) of
  /// one sequence. The span is overwritten by the next call of any of these.
  std::span<const float> next_logits(std::span<const std::int32_t> tokens);

 private:
  void run_layers(const std::int32_t* tokens, std::size_t batch, std::size_t time);
  void run_head(std::size_t first_row, std::size_t rows);
  double run_loss(const TokenBatch& batch, bool with_gradient);
  void check(const TokenBatch& batch) const;
  void backward_head(std::size_t rows, const std::function<void(std::size_t)>& ready);
  void backward_mlp(std::size_t layer, std::size_t rows,
                    const std::function<void(std::size_t)>& ready);
  void backward_attention(std::size_t layer, const TokenBatch& batch,
                          const std::function<void(std::size_t)>& ready);
  [[nodiscard]] float* value(std::size_t place) const;
  [[nodiscard]] float* gradient(std::size_t place) const;

  Gpt2Config config_;
  const Layers* layers_;
  int device_;
  std::vector<Parameter> parameters_;
  Activations activations_;
};

}  // namespace ddp
