// The progress channel: shared memory of each worker and its agent, written by the worker runtime,
// read by the agent whenever it likes; a few fields go the other way. The agent makes it (a memfd,
// so nothing is left on a disk),
// and names it to the worker by DDPRUN_PROGRESS_CHANNEL=/proc/<agent pid>/fd/<n>. Writing costs a
// few stores and wakes nobody; a worker without the runtime leaves it empty. Behind the page of
// counters there is room for stacks, which the worker writes when its agent asks (docs/hangs.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// What a worker is about, as far as it tells. Numbers are never reused.
enum class WorkPhase : std::uint8_t { starting, training, saving, loading, evaluating, ended };
/// "training", "saving a snapshot"; a number that this build does not know is "at work".
std::string_view to_text(WorkPhase phase);

/// How a worker takes the order to save and leave.
enum class Obedience : std::uint64_t {
  never,  ///< it knows of no orders
  obeys,
  past,  ///< it did, and its training is over
};

/// What a worker waits for with others. Numbers are never reused.
enum class CollectiveKind : std::uint8_t {
  none,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  barrier,
};
/// "all_reduce", ...
std::string_view to_text(CollectiveKind kind);

/// The collectives of one process group. They end in the order in which they are entered, and the
/// n-th of a rank is the n-th of every rank: that is what makes ranks comparable.
struct CollectiveCounters {
  static constexpr int kKindShift = 56;
  std::atomic<std::uint64_t> entered;   ///< number of the last one that the worker has called
  std::atomic<std::uint64_t> finished;  ///< of the last one that is known to be done
  std::atomic<std::uint64_t> waiting;   ///< of the one that is being waited for, while > finished
  std::atomic<std::uint64_t> what;      ///< that one's kind in the top byte, its bytes below
};

/// Layout of the page. Every field is an atomic of its own; readers need no more than each value
/// to be whole. Values start as 0 (the page is zeroed), so counters are kept plus one.
struct ProgressPage {
  static constexpr std::uint64_t kMagic = 0x3150444452474f50;  // "POGRDDP1", little-endian
  std::atomic<std::uint64_t> magic;           ///< kMagic once the worker has attached
  std::atomic<std::uint64_t> steps;           ///< optimizer steps done in this attempt
  std::atomic<std::uint64_t> epoch_plus_1;    ///< last finished epoch + 1; 0 = none
  std::atomic<std::uint64_t> resumed_plus_1;  ///< number of the snapshot resumed from + 1; 0 = none
  std::atomic<std::uint64_t> saved_plus_1;    ///< number of the newest snapshot + 1; 0 = none
  std::atomic<std::int64_t> first_step_ns;    ///< CLOCK_MONOTONIC of the first step; 0 = none
  std::atomic<double> loss;                   ///< last loss; valid when has_loss is set
  std::atomic<std::uint64_t> has_loss;
  // Orders of the agent, and what became of them. Each but the first is 0, or 1, or as it says.
  std::atomic<Obedience> obedience;     ///< by the worker
  std::atomic<std::uint64_t> save_now;  ///< by the agent: save at the next step and leave
  std::atomic<std::uint64_t> left;      ///< by the worker: it has saved, and its end is no failure
  /// Of `left`: a signal of another than the agent ended it before its first step, and nobody has
  /// told the other ranks. That they are to leave is for the agent to say.
  static constexpr std::uint64_t kLeftAlone = 2;
  std::atomic<std::uint64_t> being_ended;  ///< by the agent, before it sends SIGTERM
  // The newest snapshot belongs together: odd while the three fields of it are being written.
  std::atomic<std::uint64_t> save_version;
  std::atomic<std::int64_t> saved_ns;      ///< CLOCK_MONOTONIC of that snapshot
  std::atomic<std::uint64_t> saved_steps;  ///< steps done when it was saved
  std::atomic<std::int64_t> changed_ns;    ///< CLOCK_MONOTONIC of the last progress; 0 = none yet
  std::atomic<std::uint64_t> phase;        ///< a WorkPhase
  /// [0] of the CPU transport, [1] of the GPUs' group (which hands CPU tensors to the other).
  CollectiveCounters collectives[2];
  std::atomic<std::uint64_t> stack_signal;  ///< a thread that gets it writes its stack; 0 = none
  std::atomic<std::uint64_t> stacks_taken;  ///< threads that have done so
  std::atomic<std::uint64_t> stack_bytes;   ///< written so far, in the room behind this page
  /// By the worker, before it tells of a snapshot: numbers of snapshots are optimizer steps done
  /// (1) or the last finished epoch (0).
  std::atomic<std::uint64_t> numbered_by_step;
  // How long the run is meant to be: its optimizer steps, those before this attempt among them.
  std::atomic<std::uint64_t> run_steps;         ///< 0: not told
  std::atomic<std::uint64_t> run_steps_before;  ///< done before this attempt
  /// By the worker as it fails: what its error file says, too, for where there is none (a full
  /// disk,
  /// --log-dir /dev/null). A sum of the two below.
  std::atomic<std::uint64_t> failure_kind;
  static constexpr std::uint64_t kFailedByLostPeer = 1;
  static constexpr std::uint64_t kFailedForGood = 2;  ///< another attempt is of no use
};
static_assert(std::atomic<double>::is_always_lock_free);
static_assert(sizeof(ProgressPage) <= 4096);

/// The newest snapshot that a page tells of.
struct NewestSave {
  std::uint64_t number_plus_1 = 0;
  std::int64_t at_ns = 0;  ///< CLOCK_MONOTONIC
  std::uint64_t steps = 0;
};
/// None before the first; while it is being written; and for good when the worker ended in the
/// middle of that.
std::optional<NewestSave> newest_save(const ProgressPage& page);

/// A mapped page; unmapped at the end of its life.
class ProgressChannel {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kStackBytesMax = std::size_t{15} * kPageBytes;

  /// The agent's end: makes the memory and maps it. The descriptor stays open as long as the
  /// object lives, so that the worker can open the path.
  static Result<ProgressChannel> create();
  /// The worker's end: opens the path from the environment for writing and sets the magic.
  static Result<ProgressChannel> attach(const std::string& path);

  /// "/proc/<this pid>/fd/<n>", for the worker's environment.
  [[nodiscard]] std::string path() const;
  [[nodiscard]] ProgressPage& page() const { return *page_; }
  /// Room for stacks; empty where an older agent made none.
  [[nodiscard]] std::span<char> stacks() const;

 private:
  struct Unmap {
    std::size_t bytes = 0;
    void operator()(ProgressPage* page) const;
  };
  ProgressChannel(Fd fd, ProgressPage* page, std::size_t bytes)
      : fd_(std::move(fd)), page_(page, Unmap{bytes}) {}
  Fd fd_;
  std::unique_ptr<ProgressPage, Unmap> page_;
};

}  // namespace ddprun
