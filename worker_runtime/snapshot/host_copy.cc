#include "worker_runtime/snapshot/host_copy.h"

#include <new>

#include "worker_runtime/snapshot/snapshot_tensors.h"

namespace ddp {

void HostCopy::take(std::span<const NamedTensor> tensors) {
  header_ = encode_tensor_header(tensors);
  size_bytes_ = 0;
  for (const auto& [name, tensor] : tensors) {
    size_bytes_ += tensor.size_bytes();
  }
  if (size_bytes_ > capacity_bytes_) {
    // The old one first: two copies of a large model may not fit.
    memory_.reset();
    capacity_bytes_ = 0;
    // Whole pages, for a writer that goes past the page cache. Every byte is written below.
    constexpr std::size_t kPageBytes = 4096;
    const std::size_t bytes = (size_bytes_ + kPageBytes - 1) / kPageBytes * kPageBytes;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes)));
    if (!memory_) {
      throw std::bad_alloc();
    }
    capacity_bytes_ = bytes;
  }
  std::size_t first = 0;
  // In the header's order and without gaps.
  for (const auto& [name, tensor] : tensors) {
    if (tensor.size() > 0) {
      tensor.copy_to_host(memory_.get() + first);
    }
    first += tensor.size_bytes();
  }
}

}  // namespace ddp
