#include "trainer/layers/linear.h"

#include "trainer/layers/cuda/column_sums.cuh"
#include "trainer/layers/cuda/gpu_forms.h"
#include "trainer/layers/number.h"

namespace ddp::gpu {
namespace {

/// The gradient of a bias.
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

template <int width, class Real>
void add_bias_gradient(const LinearBackwardOf<Real>& pass, int device) {
  add_column_sums<1, width>(device, BiasTerms<width, Real>{pass.d_out, pass.outputs}, pass.rows,
                            pass.outputs, {{pass.d_bias}});
}

}  // namespace

template <class Real>
void linear_forward(const LinearForwardOf<Real>& pass, int device) {
  product(out_product(pass), device);
}

template <class Real>
void linear_backward(const LinearBackwardOf<Real>& pass, int device) {
  product(input_gradient_product(pass), device);
  gradient_product(weight_gradient_product(pass), device);
  if (pass.d_bias == nullptr) {
    return;
  }
  // By itself: cuBLASLt's epilogue for it overwrites, and these are added up over micro-steps.
  in_packs<Real>(pass.outputs) ? add_bias_gradient<kPackOf<Real>>(pass, device)
                               : add_bias_gradient<1>(pass, device);
}

template void linear_forward(const LinearForwardOf<float>&, int);
template void linear_forward(const LinearForwardOf<BFloat16>&, int);
template void linear_backward(const LinearBackwardOf<float>&, int);
template void linear_backward(const LinearBackwardOf<BFloat16>&, int);

}  // namespace ddp::gpu
