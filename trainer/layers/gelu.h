// GELU in the form that GPT-2 was trained with ("gelu_new"), as arithmetic of one value:
// 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks, Gimpel 2016). Since
// (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), it takes one exponential and no tanh. It is no layer of
// its own: products apply it to what they have just computed (product.h).
#pragma once

#include "trainer/layers/exponential.h"

namespace ddp {

/// 1 / (1 + exp(-2 u)): the share of x that passes.
DDP_ARITHMETIC float gelu_share(float x) {
  constexpr float kTwice = -2 * 0.7978845608F;  // -2 sqrt(2 / pi)
  return 1.0F / (1.0F + exponential(kTwice * (x + 0.044715F * x * x * x)));
}

DDP_ARITHMETIC float gelu(float x) {
  return x * gelu_share(x);
}

/// d gelu / dx = s + x s (1 - s) 2 du/dx, s the share.
DDP_ARITHMETIC float gelu_gradient(float x) {
  const float share = gelu_share(x);
  const float slope = 2 * 0.7978845608F * (1.0F + 3 * 0.044715F * x * x);
  return share + x * share * (1.0F - share) * slope;
}

}  // namespace ddp
