#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// Bound by memory: six bytes for each weight, once a forward pass.
template <class Real>
__global__ void round_kernel(const float* from, Real* to, std::size_t count) {
  const std::size_t i = global_thread();
  if (i < count) {
    to[i] = rounded<Real>(from[i]);
  }
}

}  // namespace

template <class Real>
void round(const float* from, Real* to, std::size_t count, int device) {
  launch(device, thread_for_each(count), round_kernel<Real>, from, to, count);
}

template void round(const float*, float*, std::size_t, int);
template void round(const float*, BFloat16*, std::size_t, int);

}  // namespace ddp::gpu
