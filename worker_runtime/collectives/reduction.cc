#include "worker_runtime/collectives/reduction.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddp {
namespace {

/// Elements that are reduced at a time, in memory that stays in the first cache.
constexpr std::size_t kBlock = 1024;

/// What elements are added up in.
template <class T>
struct Sum {
  using Type = T;
};
template <>
struct Sum<BFloat16> {
  using Type = float;
};

template <class T, class Combine>
void reduce_blocks(T* out, std::span<const void* const> parts, std::size_t count, int divisor,
                   Combine combine) {
  using S = typename Sum<T>::Type;
  S sums[kBlock];
  for (std::size_t first = 0; first < count; first += kBlock) {
    const std::size_t n = std::min(kBlock, count - first);
    const T* part = static_cast<const T*>(parts[0]) + first;
    for (std::size_t i = 0; i < n; ++i) {
      sums[i] = static_cast<S>(part[i]);
    }
    for (std::size_t p = 1; p < parts.size(); ++p) {
      part = static_cast<const T*>(parts[p]) + first;
      for (std::size_t i = 0; i < n; ++i) {
        sums[i] = static_cast<S>(combine(sums[i], static_cast<S>(part[i])));
      }
    }
    if (divisor > 1) {
      for (std::size_t i = 0; i < n; ++i) {
        sums[i] = static_cast<S>(sums[i] / static_cast<S>(divisor));
      }
    }
    // Last: `out` may be one of the parts.
    for (std::size_t i = 0; i < n; ++i) {
      out[first + i] = static_cast<T>(sums[i]);
    }
  }
}

template <class T>
void reduce_typed(ReduceOp op, void* out, std::span<const void* const> parts, std::size_t count) {
  using S = typename Sum<T>::Type;
  auto* to = static_cast<T*>(out);
  const int divisor = op == ReduceOp::avg ? static_cast<int>(parts.size()) : 1;
  switch (op) {
    case ReduceOp::min:
      return reduce_blocks(to, parts, count, divisor, [](S a, S b) { return std::min(a, b); });
    case ReduceOp::max:
      return reduce_blocks(to, parts, count, divisor, [](S a, S b) { return std::max(a, b); });
    case ReduceOp::product:
      return reduce_blocks(to, parts, count, divisor, [](S a, S b) { return a * b; });
    case ReduceOp::sum:
    case ReduceOp::avg:
      break;
  }
  return reduce_blocks(to, parts, count, divisor, [](S a, S b) { return a + b; });
}

}  // namespace

void reduce_parts(DType dtype, ReduceOp op, void* out, std::span<const void* const> parts,
                  std::size_t count) {
  DDP_CHECK(!parts.empty(), "a reduction of nothing has no value");
  DDP_CHECK(count == 0 || out != nullptr, "the result has a place");
  switch (dtype) {
    case DType::f32:
      return reduce_typed<float>(op, out, parts, count);
    case DType::f64:
      return reduce_typed<double>(op, out, parts, count);
    case DType::i32:
      return reduce_typed<std::int32_t>(op, out, parts, count);
    case DType::i64:
      return reduce_typed<std::int64_t>(op, out, parts, count);
    case DType::u8:
      return reduce_typed<std::uint8_t>(op, out, parts, count);
    case DType::bf16:
      return reduce_typed<BFloat16>(op, out, parts, count);
  }
}

}  // namespace ddp
