// exp(x) in single precision, without branches or tables, so that loops over it become vector
// instructions.
#pragma once

#include <cstdint>
#include <cstring>

#include "trainer/host_device.h"

namespace ddp {

/// Largest relative error for x in [-87, 88], against the exact value: two units in the last place.
/// Below it is exp(-87) (1.6e-38), above exp(88) (1.7e38): finite. NaN stays NaN.
inline constexpr float kExponentialError = 2.4e-7F;

/// exp(x) = 2^n exp(r) with n whole and |r| <= ln(2) / 2; exp(r) by the polynomial of Cephes' expf
/// (S. Moshier, 1984-1992).
DDP_ARITHMETIC float exponential(float x) {
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  // Adding 1.5 x 2^23 rounds to a whole number, which then lies in the lowest bits.
  constexpr float kRounder = 12582912.0F;
  const float shifted = x * 1.44269504F + kRounder;
  const float n = shifted - kRounder;
  // ln(2) in two parts: the first has so few bits that n times it is exact.
  float r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
#ifdef __CUDA_ARCH__
  return p * __uint_as_float((__float_as_uint(shifted) << 23U) + (127U << 23U));
#else
  std::uint32_t bits = 0;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23U) + (127U << 23U);  // the exponent's place in a float
  float power = 0;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
#endif
}

}  // namespace ddp
