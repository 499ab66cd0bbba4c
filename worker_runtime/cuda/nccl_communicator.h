// NcclCommunicator: one of NCCL's communicators and the states it goes through. It is non-blocking:
// every wait here has a deadline and ends when a peer is lost. One thread makes all calls; only an
// abort runs on a thread of its own, since it may hang, and its caller waits for it meanwhile, so
// that no two threads are inside NCCL.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "worker_runtime/cuda/nccl_library.h"
#include "worker_runtime/cuda/patience.h"

namespace ddp {

class NcclCommunicator {
 public:
  enum class State : std::uint8_t {
    ready,
    busy,    ///< a call is in progress
    failed,  ///< NCCL said so: see problem()
    lost,    ///< a peer is gone
    late,    ///< still busy at the deadline
  };

  /// `lost` is set, by any thread, when a peer is gone.
  NcclCommunicator(const nccl::NcclLibrary& library, const std::atomic<bool>& lost)
      : library_(library), lost_(lost) {}
  /// Without finish() or abort() before, the communicator stays: NCCL has no end that cannot hang.
  ~NcclCommunicator() = default;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Collective. Once.
  State connect(const nccl::UniqueId& id, int size, int rank, Patience::Deadline deadline);

  /// For the calls between begin() and end(), which take get().
  [[nodiscard]] nccl::Comm* get() const { return comm_; }
  /// Calls up to end() start together.
  void begin();
  /// What a call between the two has answered.
  void took(nccl::Result result);
  State end(Patience::Deadline deadline);

  /// What has become of the calls so far: ready, busy or failed. Does not wait.
  State look();

  /// Ends it in order, behind what is queued. False: it was not done in time, abort() has to
  /// follow.
  bool finish(std::chrono::milliseconds patience);
  /// Ends it at once, with what is queued. False when NCCL's abort has not returned in time: the
  /// device hangs, and nothing that waits for it may be called any more. Does nothing on repeat.
  bool abort();

  /// The first thing that NCCL said was wrong, in NCCL's words; empty when it said nothing.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  State settle(Patience::Deadline deadline);
  bool fine(nccl::Result result);

  const nccl::NcclLibrary& library_;
  const std::atomic<bool>& lost_;
  nccl::Comm* comm_ = nullptr;
  std::string problem_;
};

}  // namespace ddp
