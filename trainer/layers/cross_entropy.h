// Softmax with cross-entropy, in place: logits become their own gradient, so that neither the
// probabilities nor a second array of that size exists. Letters: R rows, V tokens. Real: what
// activations are made of (layers.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddp {

/// A target that does not count: neither loss nor gradient (PyTorch's ignore_index).
inline constexpr std::int32_t kIgnoredTarget = -100;

template <class Real>
struct CrossEntropyOf {
  Real* logits = nullptr;                 ///< (R, V), rows `stride` apart
  const std::int32_t* targets = nullptr;  ///< (R), each in [0, V) or kIgnoredTarget
  double* loss = nullptr;                 ///< (1), added to: sum over the targets that count
  /// Whether logits are replaced by the gradient of the SUM of the losses (columns beyond V by 0).
  bool with_gradient = true;
  std::size_t rows = 0, vocabulary = 0, stride = 0;
};

using CrossEntropy = CrossEntropyOf<float>;

}  // namespace ddp
