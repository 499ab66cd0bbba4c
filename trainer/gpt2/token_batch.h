// TokenBatch: what a GPT-2 learns from in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

/// B sequences of T tokens, row by row. Tokens and targets are in [0, V); a target may be
/// kIgnoredTarget.
struct TokenBatch {
  std::span<const std::int32_t> tokens;   ///< (B, T)
  std::span<const std::int32_t> targets;  ///< (B, T): what comes after each
  std::size_t batch = 0, time = 0;
};

}  // namespace ddp
