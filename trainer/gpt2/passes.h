// Gpt2Passes: forward and backward of a GPT-2 in one kind of numbers, as lists of calls of
// trainer/layers. What it is not: the model's face (model.h), which checks what it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "trainer/gpt2/config.h"
#include "trainer/gpt2/token_batch.h"
#include "trainer/layers/layers.h"

namespace ddp {

/// What gradients are before a backward pass.
enum class Gradients : std::uint8_t {
  zero,  ///< so that the largest ones need not be read
  sums   ///< of earlier passes, which are added to
};

/// What each does is said at Gpt2's function of that name.
class Gpt2Passes {
 public:
  virtual ~Gpt2Passes() = default;
  virtual double loss(const TokenBatch& batch, bool with_gradient) = 0;
  virtual void backward(const TokenBatch& batch, const std::function<void(std::size_t)>& ready,
                        Gradients before) = 0;
  virtual std::span<const float> next_logits(std::span<const std::int32_t> tokens) = 0;
};

/// Real: float, or BFloat16 on a GPU: then layers compute with rounded copies of the parameters.
/// `parameters` (gpt2_parameters()), all on `device`, and `layers`, which compute there, must
/// outlive it; the parameters' gradients may be seated later.
template <class Real>
std::unique_ptr<Gpt2Passes> make_gpt2_passes(const Gpt2Config& config,
                                             const std::vector<Parameter>& parameters,
                                             std::size_t batch, std::size_t time, Device device,
                                             const LayersOf<Real>& layers);

}  // namespace ddp
