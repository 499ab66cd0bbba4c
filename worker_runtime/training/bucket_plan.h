// BucketPlan: which gradient lies where in which bucket. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "ddp/tensor.h"

namespace ddp {

struct Bucket {
  DType dtype = DType::f32;
  /// Indices of parameters, in the order in which they lie in the bucket.
  std::vector<std::size_t> parameters;
  /// Where each of them begins, in elements.
  std::vector<std::size_t> offsets;
  /// Elements in all, the extra ones and those of alignment included.
  std::size_t size = 0;
};

struct GradientSize {
  std::size_t elements = 0;
  DType dtype = DType::f32;
};

/// The order of registration, backwards: about that in which backward completes the gradients, as
/// long as nothing better is known.
std::vector<std::size_t> reverse_order(std::size_t gradients);

/// The order in which gradients were reported complete in a step. Those that were not come last, in
/// reverse order of registration.
std::vector<std::size_t> order_of_step(const std::vector<std::size_t>& reported,
                                       std::size_t gradients);

/// Gradients are placed in `order`, which names each of them once. A bucket is closed when it has
/// reached its limit (`first_bytes` for the first, `other_bytes` for the rest) or when the type
/// changes: so a gradient larger than the limit has a bucket that ends with it. The first bucket
/// ends with three extra elements: the sample count in two digits, and the number of ranks that
/// wish to leave.
/// Every gradient begins at a multiple of 16 elements, so that views are aligned for vector loads.
/// Without parameters there is one bucket, of these alone (f32).
std::vector<Bucket> plan_buckets(const std::vector<GradientSize>& gradients,
                                 const std::vector<std::size_t>& order, std::size_t first_bytes,
                                 std::size_t other_bytes);

/// The extra elements of the first bucket: the sample count (low digit first), then the wishes.
inline constexpr std::size_t kExtraElements = 3;
/// Where they begin, in elements.
inline std::size_t extra_offset(const Bucket& first) {
  return first.size - kExtraElements;
}

}  // namespace ddp
