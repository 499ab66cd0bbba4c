#include "worker_runtime/training/bucket_plan.h"

#include <numeric>

#include "rendezvous/base/check.h"

namespace ddp {
namespace {

constexpr std::size_t kAlignElements = 16;

std::size_t aligned(std::size_t elements) {
  return (elements + kAlignElements - 1) / kAlignElements * kAlignElements;
}

}  // namespace

std::vector<std::size_t> reverse_order(std::size_t gradients) {
  std::vector<std::size_t> order(gradients);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  return order;
}

std::vector<std::size_t> order_of_step(const std::vector<std::size_t>& reported,
                                       std::size_t gradients) {
  std::vector<std::size_t> order = reported;
  std::vector<bool> has(gradients);
  for (const std::size_t i : reported) {
    DDP_CHECK(i < gradients && !has[i], "a gradient is complete once in a step");
    has[i] = true;
  }
  for (const std::size_t i : reverse_order(gradients)) {
    if (!has[i]) {
      order.push_back(i);
    }
  }
  return order;
}

std::vector<Bucket> plan_buckets(const std::vector<GradientSize>& gradients,
                                 const std::vector<std::size_t>& order, std::size_t first_bytes,
                                 std::size_t other_bytes) {
  DDP_CHECK(order.size() == gradients.size(), "each gradient has a place in the order");
  std::vector<Bucket> buckets;
  std::size_t content_bytes = 0;  // of the bucket being filled, without alignment
  // What backward completes first leaves while it computes the rest.
  for (const std::size_t i : order) {
    DDP_CHECK(i < gradients.size(), "the order names gradients that are there");
    const GradientSize& gradient = gradients[i];
    // A small first bucket starts communication early, as in PyTorch (1 MiB, then 25 MiB).
    const std::size_t limit = buckets.size() <= 1 ? first_bytes : other_bytes;
    if (buckets.empty() || content_bytes >= limit || buckets.back().dtype != gradient.dtype) {
      buckets.push_back({.dtype = gradient.dtype, .parameters = {}, .offsets = {}});
      content_bytes = 0;
    }
    Bucket& bucket = buckets.back();
    bucket.parameters.push_back(i);
    bucket.offsets.push_back(bucket.size);
    bucket.size = aligned(bucket.size + gradient.elements);
    DDP_CHECK(bucket.size >= bucket.offsets.back() + gradient.elements,
              "a gradient lies inside its bucket, and none reaches into the next one");
    DDP_CHECK(bucket.dtype == gradient.dtype, "one collective reduces numbers of one type");
    content_bytes += gradient.elements * size_of(gradient.dtype);
  }
  if (buckets.empty()) {
    buckets.push_back({});
  }
  for (const Bucket& bucket : buckets) {
    DDP_CHECK(bucket.parameters.size() == bucket.offsets.size(), "each gradient has its place");
  }
  // Behind the gradients, whose alignment stays as it is.
  buckets.front().size += kExtraElements;
  return buckets;
}

}  // namespace ddp
