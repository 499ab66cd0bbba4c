#include "worker_runtime/training/bucket_plan.h"

#include "rendezvous/base/check.h"

namespace ddp {
namespace {

constexpr std::size_t kAlignElements = 16;

std::size_t aligned(std::size_t elements) {
  return (elements + kAlignElements - 1) / kAlignElements * kAlignElements;
}

}  // namespace

std::vector<Bucket> plan_buckets(const std::vector<GradientSize>& gradients,
                                 std::size_t first_bytes, std::size_t other_bytes) {
  std::vector<Bucket> buckets;
  std::size_t content_bytes = 0;  // of the bucket being filled, without alignment
  // Backward finishes the last layers first: the first bucket leaves while the rest is computed.
  for (std::size_t i = gradients.size(); i-- > 0;) {
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
