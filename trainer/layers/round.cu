#include "trainer/layers/cuda/block.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/cuda/pack.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// Bound by memory: six bytes for each weight, once a forward pass. A thread takes `width`.
template <int width, class Real>
__global__ void round_kernel(const float* from, Real* to, std::size_t count) {
  const std::size_t first = global_thread() * width;
  if (first < count) {
    const auto pack = load_pack<width>(from + first);
    Pack<Real, width> result;
    for (int k = 0; k < width; ++k) {
      result.of[k] = rounded<Real>(pack.of[k]);
    }
    store_pack(to + first, result);
  }
}

}  // namespace

template <class Real>
void round(const float* from, Real* to, std::size_t count, int device) {
  constexpr int kWidth = kPackOf<float>;
  if (in_packs<float>(count)) {
    launch(device, thread_for_each(count / kWidth), round_kernel<kWidth, Real>, from, to, count);
  } else {
    launch(device, thread_for_each(count), round_kernel<1, Real>, from, to, count);
  }
}

template void round(const float*, float*, std::size_t, int);
template void round(const float*, BFloat16*, std::size_t, int);

}  // namespace ddp::gpu
