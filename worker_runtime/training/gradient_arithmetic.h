// The arithmetic of data parallelism on whole buckets, on the CPU or on the device where they lie.
// The same bits on both.
#pragma once

#include "ddp/tensor.h"

namespace ddp {

/// values[i] /= divisor, f32 or f64. A divisor of 0 (a step without a sample on any rank) leaves
/// zeros, not NaN. For f32 the divisor must be a float's value.
void divide(const Tensor& values, double divisor);
/// to[i] = from[i]: f32 to bf16, rounded to the nearest. Of equal size, on one device.
void narrow(const Tensor& from, const Tensor& to);
/// bf16 to f32, exact.
void widen(const Tensor& from, const Tensor& to);

}  // namespace ddp
