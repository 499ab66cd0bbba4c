// CollectiveProgress: what a process group tells the agent of its collectives: a few stores each,
// so that a rank which does not come can be told from those that wait for it (docs/hangs.md). In
// the header alone, since the GPU library has a group of its own.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "rendezvous/contract/progress_channel.h"
#include "worker_runtime/collectives/operation.h"

namespace ddp {

/// The clock that the agent compares with.
inline std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline ddprun::CollectiveKind kind_of(Operation::Kind kind) {
  switch (kind) {
    case Operation::Kind::all_reduce:
      return ddprun::CollectiveKind::all_reduce;
    case Operation::Kind::broadcast:
      return ddprun::CollectiveKind::broadcast;
    case Operation::Kind::all_gather:
      return ddprun::CollectiveKind::all_gather;
    case Operation::Kind::reduce_scatter:
      return ddprun::CollectiveKind::reduce_scatter;
    case Operation::Kind::barrier:
      return ddprun::CollectiveKind::barrier;
    case Operation::Kind::send:
    case Operation::Kind::recv:
      break;
  }
  return ddprun::CollectiveKind::none;
}

/// Does nothing without a page. The page must outlive the group. Messages between two ranks count
/// as signs of life when they are done, and are not numbered here.
class CollectiveProgress {
 public:
  enum class Group : std::uint8_t { host, gpu };

  CollectiveProgress() = default;
  CollectiveProgress(ddprun::ProgressPage& page, Group group)
      : changed_ns_(&page.changed_ns), counters_(&page.collectives[static_cast<int>(group)]) {}

  /// The caller has issued it.
  void entered(const Operation& operation) const {
    if (counters_ != nullptr) {
      counters_->entered.store(operation.sequence, kRelaxed);
      changed_ns_->store(monotonic_ns(), kRelaxed);
    }
  }
  /// It is this one that the rank does, or waits for, now.
  void begun(const Operation& operation) const {
    if (counters_ != nullptr && !operation.is_message()) {
      const Tensor& tensor = operation.output;
      const std::uint64_t bytes = tensor.defined() ? tensor.size_bytes() : 0;
      counters_->what.store(std::uint64_t(kind_of(operation.kind)) << kShift | bytes, kRelaxed);
      counters_->waiting.store(operation.sequence, kRelaxed);
    }
  }
  /// It was done well. One that failed stays: the rank is still in it as far as others can see.
  void finished(const Operation& operation) const {
    if (counters_ != nullptr) {
      if (!operation.is_message() && operation.sequence > counters_->finished.load(kRelaxed)) {
        counters_->finished.store(operation.sequence, kRelaxed);
      }
      changed_ns_->store(monotonic_ns(), kRelaxed);
    }
  }

 private:
  static constexpr auto kRelaxed = std::memory_order_relaxed;  // each value is read for itself
  static constexpr int kShift = ddprun::CollectiveCounters::kKindShift;
  std::atomic<std::int64_t>* changed_ns_ = nullptr;
  ddprun::CollectiveCounters* counters_ = nullptr;
};

/// From now on, before the first operation.
void tell_collectives(ProcessGroup& group, const CollectiveProgress& marks);

}  // namespace ddp
