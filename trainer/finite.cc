#include "trainer/finite.h"

#include <algorithm>
#include <cstdint>

#include "trainer/layers/vector_code.h"

namespace ddp {
namespace {

/// By the bits: an exponent of ones alone is an infinity or a NaN. -ffast-math of a caller, or a
/// comparison that the compiler folds, cannot change the answer. Without a branch in the loop, so
/// that it goes as fast as memory does.
template <class Bits>
[[gnu::always_inline]] inline bool has_full_exponent(const Bits* bits, std::size_t count,
                                                     Bits exponent) {
  Bits found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    found |= static_cast<Bits>((bits[i] & exponent) == exponent);
  }
  return found != 0;
}

DDP_VECTOR_CODE bool any_in_f32(const std::uint32_t* bits, std::size_t count) {
  return has_full_exponent(bits, count, std::uint32_t{0x7f800000});
}

DDP_VECTOR_CODE bool any_in_f64(const std::uint64_t* bits, std::size_t count) {
  return has_full_exponent(bits, count, std::uint64_t{0x7ff0000000000000});
}

DDP_VECTOR_CODE bool any_in_bf16(const std::uint16_t* bits, std::size_t count) {
  return has_full_exponent(bits, count, std::uint16_t{0x7f80});
}

}  // namespace

bool is_finite(const Tensor& tensor) {
  const Tensor here = tensor.device().is_cpu() ? tensor : tensor.to(Device::cpu());
  switch (here.dtype()) {
    case DType::f32:
      return !any_in_f32(static_cast<const std::uint32_t*>(here.raw()), here.size());
    case DType::f64:
      return !any_in_f64(static_cast<const std::uint64_t*>(here.raw()), here.size());
    case DType::bf16:
      return !any_in_bf16(static_cast<const std::uint16_t*>(here.raw()), here.size());
    case DType::i32:
    case DType::i64:
    case DType::u8:
      return true;
  }
  return true;
}

const NamedTensor* first_not_finite(std::span<const NamedTensor> tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const NamedTensor& named) {
    return !is_finite(named.tensor);
  });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace ddp
