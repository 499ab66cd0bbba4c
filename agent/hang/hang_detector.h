// HangDetector: from what a node's workers show, whether they hang. Pure: `now` comes in, on the
// clock of the progress channels (CLOCK_MONOTONIC).
//
// With the worker runtime: a worker hangs that has told of no progress (a step, a collective called
// or done, a phase, a sign of life) for the timeout; until its first step in this attempt, for the
// start timeout. One is enough: in a job that trains together all others soon wait for it.
//
// Without: nothing is told, so only what the kernel counts can speak. The workers of a node hang
// when none of them, with all its descendants, has used a hundredth of a processor or shown
// anything for the timeout. All of them, since one that waits for the others is no news. Whoever
// waits by spinning (NCCL does) seems to work: for that, give PyTorch's own watchdog a timeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddprun {

struct HangTimeouts {
  std::chrono::nanoseconds progress{};  ///< 0: off
  std::chrono::nanoseconds start{};     ///< until the first step; not below `progress`

  friend bool operator==(const HangTimeouts&, const HangTimeouts&) = default;
};

/// What one local worker shows.
struct WorkerSigns {
  bool runs = true;
  bool told = false;                      ///< it uses the runtime
  bool stepped = false;                   ///< has made its first step
  bool ended = false;                     ///< its training is over: it only has to exit
  std::chrono::nanoseconds changed_at{};  ///< its last progress; 0: none yet
  // Where nothing is told:
  std::chrono::nanoseconds cpu{};  ///< used by the worker and all below it, so far
  std::uint64_t output = 0;        ///< any number that changes when it shows something
};

class HangDetector {
 public:
  using Time = std::chrono::nanoseconds;

  HangDetector(HangTimeouts timeouts, Time started);

  struct Answer {
    std::vector<int> still;  ///< local ranks that hang; empty: none
    Time still_for{};        ///< the longest of these
    Time look_again{};       ///< when to ask the next time
  };
  /// By local rank, the same number each time.
  Answer look(Time now, const std::vector<WorkerSigns>& workers);

 private:
  struct Watched {
    Time since{};  ///< seems idle since
    Time cpu{};
    std::uint64_t output = 0;
  };
  void watch_idle(Time now, const std::vector<WorkerSigns>& workers);

  HangTimeouts timeouts_;
  Time started_;
  std::optional<Time> expected_;  ///< when this look was to be
  Time not_before_{};
  std::vector<Watched> watched_;
};

}  // namespace ddprun
