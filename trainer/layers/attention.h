// Causal self-attention of several heads: softmax(Q K^T / sqrt(D)) V, each position looking at
// itself and what came before. In strips of rows, as flash attention does it (Dao et al. 2022):
// the matrix of probabilities (T, T) is never kept; the backward pass makes it again, strip by
// strip, from the logarithm of each row's sum. Letters: B sequences, T positions, H heads of D
// channels, C = H D. Real: what activations are made of (layers.h).
#pragma once

#include <cstddef>

namespace ddp {

struct AttentionShape {
  std::size_t batch = 0, time = 0, heads = 0, head_size = 0;  ///< B, T, H, D
  [[nodiscard]] std::size_t channels() const { return heads * head_size; }
};

template <class Real>
struct AttentionForwardOf {
  AttentionShape shape;
  const Real* qkv = nullptr;  ///< (B, T, 3, H, D): queries, keys and values of each position
  Real* out = nullptr;        ///< (B, T, H, D)
  float* log_sum = nullptr;   ///< (B, H, T): log of the sum of exp of a row, for the backward pass
  /// On CPUs: so many times attention_scratch(T, D) floats, aligned to 64 bytes. A thread each;
  /// where the rank has more threads, one computes alone.
  float* scratch = nullptr;
  std::size_t scratches = 1;
};

template <class Real>
struct AttentionBackwardOf {
  AttentionShape shape;
  const Real* qkv = nullptr;       ///< (B, T, 3, H, D)
  const Real* out = nullptr;       ///< (B, T, H, D)
  const Real* d_out = nullptr;     ///< (B, T, H, D)
  const float* log_sum = nullptr;  ///< (B, H, T)
  Real* d_qkv = nullptr;           ///< (B, T, 3, H, D), overwritten
  float* scratch = nullptr;        ///< as above
  std::size_t scratches = 1;
  /// (3, H, D), or null: the sum of d_qkv over all positions is added to it, which is the gradient
  /// of the bias that went into qkv.
  float* d_qkv_sum = nullptr;
};

using AttentionForward = AttentionForwardOf<float>;
using AttentionBackward = AttentionBackwardOf<float>;

/// Of the GPU forms: of all of OpenAI's models.
inline constexpr std::size_t kGpuHeadSizeMax = 64;
/// Sequences times heads: blocks in a grid's second dimension.
inline constexpr std::size_t kGpuHeadsMax = 65535;

/// Rows of a strip: a multiple of every level's tile.
inline constexpr std::size_t kAttentionStrip = 96;
/// Rows and columns of the scratch matrices are padded to a multiple of every level's tile.
inline constexpr std::size_t kAttentionPadding = 32;

/// Of one head: nine matrices (T, D) and two strips.
[[gnu::always_inline]] constexpr std::size_t attention_scratch(std::size_t time,
                                                               std::size_t head_size) {
  const auto padded = [](std::size_t n) {
    return (n + kAttentionPadding - 1) / kAttentionPadding * kAttentionPadding;
  };
  return 9 * padded(time) * padded(head_size) + 2 * kAttentionStrip * padded(time);
}

}  // namespace ddp
