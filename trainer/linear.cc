#include "trainer/linear.h"

#include <algorithm>

#include "trainer/layers/gpu_library.h"
#include "trainer/layers/row_chunks.h"

namespace ddp {
namespace {

/// The reference for the GPU form. Plain loops with a fixed order of sums: equal inputs give equal
/// bits in every run, so a resumed training ends with the weights of one that was never stopped.
void pass_on_cpu(const LinearPass& pass, int /*device*/) {
  const std::size_t features = pass.feature_count;
  const auto row = [&](std::size_t b) { return static_cast<std::size_t>(pass.index[b]); };
  // Forward: y (B), kept only as the loss's gradient by it.
  for (std::size_t b = 0; b < pass.batch_size; ++b) {
    const float y = predict(pass.features + row(b) * features, pass.weight, *pass.bias, features);
    const float target = pass.targets[row(b)];
    pass.d_y[b] = squared_error_gradient(y, target);
    const double error = static_cast<double>(y) - target;
    *pass.loss += error * error;
  }
  // Backward: d_weight (F) += d_y (B) x (B, F); d_bias += sum of d_y. Sample by sample, so that
  // the inner loop runs along memory and the order of each sum is that of the batch.
  for (std::size_t b = 0; b < pass.batch_size; ++b) {
    const float* x = pass.features + row(b) * features;
    for (std::size_t f = 0; f < features; ++f) {
      pass.d_weight[f] += pass.d_y[b] * x[f];
    }
    *pass.d_bias += pass.d_y[b];
  }
}

void update_values(const SgdUpdate& update, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    update_one(update, i);
  }
}

/// One value at a time, so that no bit depends on who updates it.
void update_tensor(const SgdUpdate& update) {
  // Fewer take one thread less time than to meet with the others.
  constexpr std::size_t kWorthSharing = std::size_t{64} * 1024;
  if (update.count < kWorthSharing) {
    update_values(update, 0, update.count);
    return;
  }
  for_row_chunks(static_cast<std::int64_t>(update.count),
                 [&](std::int64_t /*chunk*/, std::int64_t first, std::int64_t end) {
                   update_values(update, static_cast<std::size_t>(first),
                                 static_cast<std::size_t>(end));
                 });
}

/// One after the other: threads share the large ones, and a small one is done before they have met.
void update_on_cpu(const SgdUpdate* updates, std::size_t count, int /*device*/) {
  std::for_each_n(updates, count, update_tensor);
}

}  // namespace

const LinearKernels& cpu_kernels() {
  static constexpr LinearKernels kKernels{pass_on_cpu, update_on_cpu};
  return kKernels;
}

const LinearKernels& gpu_kernels() {
  return *reinterpret_cast<LinearKernelsFactory*>(gpu_library_symbol(kLinearKernelsName))();
}

}  // namespace ddp
