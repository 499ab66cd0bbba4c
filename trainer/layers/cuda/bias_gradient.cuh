// The gradient of a layer's bias: the sum of its result's gradient over the rows, added to what is
// there.
#pragma once

#include "trainer/layers/cuda/column_sums.cuh"
#include "trainer/layers/number.h"

namespace ddp::gpu {

template <int width, class Real>
struct BiasTerms {
  const Real* d_out;
  std::size_t outputs;
  __device__ Terms<1, width> operator()(std::size_t row, std::size_t o) const {
    const auto pack = load_pack<width>(d_out + row * outputs + o);
    Terms<1, width> terms;
    for (int j = 0; j < width; ++j) {
      terms.of[0][j] = widened(pack.of[j]);
    }
    return terms;
  }
};

/// d_out (rows, outputs).
template <class Real>
void add_bias_gradient(const Real* d_out, std::size_t rows, std::size_t outputs, float* d_bias,
                       int device) {
  constexpr int kWidth = kPackOf<Real>;
  if (in_packs<Real>(outputs)) {
    add_column_sums<1, kWidth>(device, BiasTerms<kWidth, Real>{d_out, outputs}, rows, outputs,
                               {{d_bias}});
  } else {
    add_column_sums<1, 1>(device, BiasTerms<1, Real>{d_out, outputs}, rows, outputs, {{d_bias}});
  }
}

}  // namespace ddp::gpu
