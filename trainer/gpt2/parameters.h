// The parameters of a GPT-2, with the names and layouts of Hugging Face's GPT2LMHeadModel in
// safetensors: linear layers lie as (in, out) (Conv1D), and the head has no weight of its own, but
// is wte.weight transposed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ddp/distributed_data_parallel.h"
#include "trainer/gpt2/config.h"

namespace ddp {

/// Places in the vector of parameters.
enum class Gpt2Weight : std::uint8_t {
  wte,  ///< (V, C)
  wpe,  ///< (context, C)
};
/// Of each layer, in this order, from place 2 on.
enum class Gpt2LayerWeight : std::uint8_t {
  ln_1_weight,       ///< (C)
  ln_1_bias,         ///< (C)
  attn_weight,       ///< (C, 3 C): queries, keys, values
  attn_bias,         ///< (3 C)
  attn_proj_weight,  ///< (C, C)
  attn_proj_bias,    ///< (C)
  ln_2_weight,       ///< (C)
  ln_2_bias,         ///< (C)
  fc_weight,         ///< (C, 4 C)
  fc_bias,           ///< (4 C)
  fc_proj_weight,    ///< (4 C, C)
  fc_proj_bias,      ///< (C)
};
inline constexpr std::size_t kGpt2LayerWeights = 12;

inline std::size_t place(Gpt2Weight weight) {
  return static_cast<std::size_t>(weight);
}
inline std::size_t place(std::size_t layer, Gpt2LayerWeight weight) {
  return 2 + layer * kGpt2LayerWeights + static_cast<std::size_t>(weight);
}
/// ln_f.weight (C); ln_f.bias (C) follows.
inline std::size_t place_of_ln_f(const Gpt2Config& config) {
  return 2 + config.layers * kGpt2LayerWeights;
}

/// Names and shapes, and zeroed values as views of one allocation; gradients are not defined.
/// Behind wte.weight lie rows of zeros, up to padded_vocabulary(): a GPU's products read them, and
/// nobody writes them.
std::vector<Parameter> gpt2_parameters(const Gpt2Config& config, Device device = {});

/// GPT-2's first weights: normal with standard deviation 0.02, those that end in the residual
/// stream (c_proj) 0.02 / sqrt(2 L), biases 0, layer norms 1 (Radford et al. 2019, 2.3). The same
/// on every machine: from trainer/uniform.h.
void initialise_gpt2(const Gpt2Config& config, std::uint64_t seed,
                     const std::vector<Parameter>& parameters);

}  // namespace ddp
