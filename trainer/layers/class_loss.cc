#include "trainer/layers/class_loss.h"

#include <algorithm>
#include <cstddef>

#include "trainer/layers/layers.h"

namespace ddp {

ClassLoss class_loss(std::span<float> scores, std::span<const std::int32_t> targets,
                     bool with_gradient) {
  if (targets.empty()) {
    return {};
  }
  const std::size_t classes = scores.size() / targets.size();
  ClassLoss loss;
  // Before the loss, which writes the gradient over the scores.
  for (std::size_t n = 0; n < targets.size(); ++n) {
    const auto row = scores.subspan(n * classes, classes);
    const auto best = std::max_element(row.begin(), row.end()) - row.begin();
    loss.correct += best == targets[n] ? 1 : 0;
  }
  // The kernel of language models: classes are its vocabulary.
  cpu_layers().cross_entropy({.logits = scores.data(),
                              .targets = targets.data(),
                              .loss = &loss.sum,
                              .with_gradient = with_gradient,
                              .rows = targets.size(),
                              .vocabulary = classes,
                              .stride = classes},
                             0);
  return loss;
}

/// Adds, as the GPU's does: a caller may collect several batches before it looks.
void class_loss(const ClassLossOf<float>& pass, int /*device*/) {
  const auto loss = class_loss({pass.scores, pass.rows * pass.classes}, {pass.targets, pass.rows},
                               pass.with_gradient);
  pass.sums[0] += loss.sum;
  pass.sums[1] += static_cast<double>(loss.correct);
}

}  // namespace ddp
