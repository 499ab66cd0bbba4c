// Pack: neighbours in memory that a thread moves at once. A GPU moves 16 bytes as fast as two.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace ddp::gpu {

template <class Real, int count>
struct alignas(sizeof(Real) * count) Pack {
  Real of[count];
};

/// Reals in 16 bytes.
template <class Real>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(Real));

template <int count, class Real>
__device__ Pack<Real, count> load_pack(const Real* from) {
  return *reinterpret_cast<const Pack<Real, count>*>(from);
}
template <int count, class Real>
__device__ void store_pack(Real* to, const Pack<Real, count>& pack) {
  *reinterpret_cast<Pack<Real, count>*>(to) = pack;
}

/// To global memory, by one instruction. For values that come out of branches: nvcc stores those
/// one by one, and memory then takes 16 bytes in four or eight parts.
template <int count, class Real>
__device__ void store_whole_pack(Real* to, const Pack<Real, count>& pack) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(pack) == sizeof(uint4)) {
    uint4 bits;
    __builtin_memcpy(&bits, &pack, sizeof bits);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
                 : "memory");
    return;
  }
#endif
  store_pack(to, pack);
}

/// Whether all rows of that length are whole packs of 16 bytes; arrays begin at such addresses.
template <class Real>
bool in_packs(std::size_t row) {
  return row % kPackOf<Real> == 0;
}

}  // namespace ddp::gpu
