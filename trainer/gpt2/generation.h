// Text from a trained GPT-2, token by token.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "ddp/ddp.h"
#include "trainer/gpt2/config.h"
#include "trainer/gpt2/gpt2_options.h"
#include "trainer/text/tokenizer.h"

namespace ddp {

/// The token at which a uniform number in [0, 1) falls, when each token takes room by its
/// probability: softmax of logits / temperature among the `top_k` largest (0: all; of equal ones
/// the lower). Temperature 0: the largest. Pure.
std::int32_t sample_token(std::span<const float> logits, double temperature, std::size_t top_k,
                          double uniform);

/// Loads the newest snapshot and prints options.generate with what follows, up to options.length
/// tokens or the end of the text. Throws ddp::DoNotRetry when there is no snapshot. Rank 0 prints.
/// Collective.
void generate_gpt2(const Context& context, const Gpt2Options& options, const Gpt2Config& config,
                   const Tokenizer& tokenizer);

}  // namespace ddp
