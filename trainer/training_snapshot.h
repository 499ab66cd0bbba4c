// TrainingSnapshot: ddp::Snapshot with what every trainer demands of it. Nothing that is not finite
// is saved or gone on from, and a training whose newest save failed does not end as if it had not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddp/error.h"
#include "ddp/preemption.h"
#include "ddp/snapshot.h"
#include "trainer/storage_error.h"

namespace ddp {

/// All ranks call each function at the same place of the training. The context must outlive it.
class TrainingSnapshot {
 public:
  TrainingSnapshot(const Context& context, SnapshotOptions options);

  /// As Snapshot's, but StorageError in place of Error. Throws DoNotRetry, too, when the snapshot
  /// holds a number that is not finite.
  [[nodiscard]] std::optional<SnapshotState> load(std::string_view model,
                                                  std::span<const NamedTensor> tensors);
  /// For the start of a training that has something left to do: throws DoNotRetry on every rank
  /// when none of those that write may write at the path (rights, a read-only disk). A full disk is
  /// no such reason: there may be room by the next save. Collective.
  void require_place();
  /// As Snapshot's, after all ranks have looked together: throws DoNotRetry on all of them, and
  /// saves nothing, when a tensor or a scalar of any rank is not finite. Collective.
  SaveResult save(SnapshotState state, std::span<const NamedTensor> tensors);
  std::optional<SaveOutcome> save_async(SnapshotState state, std::span<const NamedTensor> tensors);
  std::optional<SaveOutcome> poll();
  std::optional<SaveOutcome> wait();

  /// As Snapshot's.
  [[nodiscard]] bool writes() const { return snapshot_.writes(); }

  /// For the end: throws StorageError on every rank when the newest save of any of them failed.
  /// Another attempt may find room on the disk. Waits for the save that is being written; its
  /// outcome can be had from wait() before. Collective.
  void require_saved();
  /// For an order to leave: the same, but it is only said. The order may come from a machine that
  /// is about to be switched off, or be about another world, so all leave in either case. Returns
  /// the status for main (Preemption::leave()). Collective.
  int leave(Preemption& preemption);

  /// Ends the training on every rank: `what` ("the loss") is no longer finite in `place`
  /// ("epoch 3"). Throws DoNotRetry: the next attempt would compute the same. Collective.
  [[noreturn]] void end_not_finite(const std::string& what, const std::string& place);

 private:
  void require_finite(const SnapshotState& state, std::span<const NamedTensor> tensors);
  std::optional<SaveOutcome> noted(std::optional<SaveOutcome> outcome);
  /// One sentence when the newest save of any rank failed, else empty. Collective.
  [[nodiscard]] std::string unsaved_text();
  /// "the newest snapshot in PATH is of step 40", as rank 0 knows it. Collective.
  [[nodiscard]] std::string newest_text();

  const Context* context_;
  Snapshot snapshot_;
  std::optional<std::string> newest_;  // place of the newest good one that this rank knows
  bool failed_ = false;                // the newest save, on this rank
};

}  // namespace ddp
