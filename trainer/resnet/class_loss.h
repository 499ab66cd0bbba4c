// The loss of a classifier: cross-entropy (layers/cross_entropy.h), and how often the highest score
// was the right one.
#pragma once

#include <cstdint>
#include <span>

namespace ddp {

struct ClassLoss {
  double sum = 0;  ///< of -log softmax(scores)[target] over the samples, natural logarithm
  std::int64_t correct = 0;  ///< samples whose target has the largest score (the first of equals)
};

/// scores (N, classes), row by row; targets (N), each in [0, classes). With `with_gradient` the
/// scores become the gradient of the SUM.
ClassLoss class_loss(std::span<float> scores, std::span<const std::int32_t> targets,
                     bool with_gradient);

}  // namespace ddp
