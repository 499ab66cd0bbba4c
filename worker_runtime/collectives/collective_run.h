// CollectiveRun: one collective on its way over Gloo's connections or the star, as the algorithms
// see it. They move bytes in a pattern that depends on ranks and sizes alone, and combine elements
// in the order of ranks: results never depend on who came first.
#pragma once

#include <gloo/context.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker_runtime/bootstrap/hub_channel.h"
#include "worker_runtime/collectives/gloo_transfer.h"
#include "worker_runtime/collectives/operation.h"

namespace ddp {

/// Memory for what comes in from other ranks, kept from one collective to the next. One collective
/// at a time.
class ScratchMemory {
 public:
  /// At least so much, with any content; what was handed out before is void. Aligned like a Tensor.
  std::byte* at_least(std::size_t bytes) {
    if (memory_.size_bytes() < bytes) {
      memory_ = Tensor();  // first, so that both are never there at once
      memory_ = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8);
    }
    return static_cast<std::byte*>(memory_.raw());
  }

 private:
  Tensor memory_;
};

struct CollectiveRun {
  const Operation& operation;
  const std::shared_ptr<gloo::Context>& context;
  TransferBoard& board;
  HubChannel& star;
  ScratchMemory& scratch;
  Transfer::Deadline deadline;

  [[nodiscard]] int rank() const { return context->rank; }
  [[nodiscard]] int size() const { return context->size; }
  [[nodiscard]] int beyond(int distance) const { return (rank() + distance + size()) % size(); }
  /// Unique between two ranks: messages use other prefixes, and every collective its sequence.
  /// Steps are below 2^16.
  [[nodiscard]] std::uint64_t slot(std::size_t step = 0) const {
    // The sequence wraps after 2^24 collectives, when those of the old numbers are long over.
    constexpr std::uint64_t kCollectivePrefix = std::uint64_t{0x41} << 56;
    return kCollectivePrefix | std::uint64_t{fingerprint(operation)} << 40 |
           (operation.sequence & 0xffffffU) << 16 | static_cast<std::uint16_t>(step);
  }
  /// What both ends of the star give.
  [[nodiscard]] HubChannel::Call call() const {
    return {operation.sequence, fingerprint(operation)};
  }
  [[nodiscard]] Transfer transfer(const Tensor& tensor) const {
    return Transfer(board, context, tensor.raw(), tensor.size_bytes());
  }
};

}  // namespace ddp
