#include "trainer/layers/class_loss.h"

#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/gpu_image_forms.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// One block, since a batch has some hundred rows; a thread takes whole rows.
template <class Real>
__global__ void count_right_kernel(ClassLossOf<Real> pass) {
  double right = 0;
  for (std::size_t row = threadIdx.x; row < pass.rows; row += kThreads) {
    const Real* scores = pass.scores + row * pass.classes;
    // The first of equals, as on the CPU: both then count the same.
    std::size_t best = 0;
    for (std::size_t k = 1; k < pass.classes; ++k) {
      best = widened(scores[k]) > widened(scores[best]) ? k : best;
    }
    right += best == static_cast<std::size_t>(pass.targets[row]) ? 1 : 0;
  }
  right = block_sum(right, shared_memory<double>());
  if (threadIdx.x == 0) {
    pass.sums[1] += right;
  }
}

}  // namespace

template <class Real>
void class_loss(const ClassLossOf<Real>& pass, int device) {
  Grid grid{{1, 1, 1}};
  grid.shared_bytes = kThreads / kWarpSize * sizeof(double);
  // Before the loss, which writes the gradient over the scores.
  launch(device, grid, count_right_kernel<Real>, pass);
  cross_entropy(CrossEntropyOf<Real>{.logits = pass.scores,
                                     .targets = pass.targets,
                                     .loss = pass.sums,
                                     .with_gradient = pass.with_gradient,
                                     .rows = pass.rows,
                                     .vocabulary = pass.classes,
                                     .stride = pass.classes},
                device);
}

template void class_loss(const ClassLossOf<float>&, int);
template void class_loss(const ClassLossOf<BFloat16>&, int);

}  // namespace ddp::gpu
