// The numbers that layers compute with: floats; and bf16, which is widened to floats for arithmetic
// and rounded back to the nearest. On GPUs by the card's own instruction.
#pragma once

#ifdef __CUDA_ARCH__
#include <cuda_bf16.h>
#endif

#include "ddp/tensor.h"
#include "trainer/host_device.h"

namespace ddp {

DDP_ARITHMETIC float widened(float value) {
  return value;
}

DDP_ARITHMETIC float widened(BFloat16 value) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16U);
#else
  return static_cast<float>(value);
#endif
}

/// To the nearest, of two equally near ones to the even one, on both kinds of device.
template <class Real>
DDP_ARITHMETIC Real rounded(float value) {
  if constexpr (sizeof(Real) == sizeof(float)) {
    return value;
  } else {
#ifdef __CUDA_ARCH__
    BFloat16 result;
    result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    return result;
#else
    return BFloat16(value);
#endif
  }
}

}  // namespace ddp
