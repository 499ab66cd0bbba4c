// The loss of a classifier: cross-entropy (cross_entropy.h), and how often the highest score was
// the right one. Letters: N samples. Real: what activations are made of (layers.h).
#pragma once

#include <cstddef>
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

/// The same on any device.
template <class Real>
struct ClassLossOf {
  Real* scores = nullptr;                 ///< (N, classes); become the gradient of the sum
  const std::int32_t* targets = nullptr;  ///< (N), each in [0, classes)
  double* sums = nullptr;  ///< (2), added to: the losses' sum, and how many are right
  bool with_gradient = true;
  std::size_t rows = 0, classes = 0;
};
void class_loss(const ClassLossOf<float>& pass, int device = 0);

}  // namespace ddp
