// Snapshot: a saved training state from which any later attempt goes on. Tensors are kept as
// safetensors, the rest as JSON, both covered by a manifest with sizes and checksums; a snapshot is
// there completely or not at all (docs/snapshot.md has the format). What it is not: a place for
// the model's code, or a checkpoint per rank. Every rank holds the same state, so one copy is kept
// where the directory is shared, and one per node where each node has a directory of its own.
//
//     ddp::Snapshot snapshot(context, {.path = "snapshot.ddp"});
//     std::vector<ddp::NamedTensor> tensors = {{"weight", weight}, {"bias", bias}};
//     std::int64_t first_epoch = 0;
//     if (auto state = snapshot.load("linear", tensors)) {
//       first_epoch = state->epochs_run;
//     }
//     ...
//     snapshot.save({.model = "linear", .epochs_run = epoch + 1}, tensors);
//
// save() waits for the disk. Where the state is large, save_async() copies it and returns, and a
// thread writes while training goes on; poll() after each step says how a save ended.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ddp/ddp.h"
#include "ddp/export.h"
#include "ddp/tensor.h"

namespace ddp {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// All of a training state that is not a tensor. Its texts and names are UTF-8, and as JSON it
/// takes at most 16 MiB; what is larger belongs into a tensor. save() throws InvalidArgument
/// otherwise.
struct SnapshotState {
  /// Name of the model; load() refuses a snapshot of another one.
  std::string model;
  /// Epochs that are complete: training goes on with the epoch of this number.
  std::int64_t epochs_run = 0;
  /// Samples of that epoch that the job has seen (DistributedSampler::samples_done); 0 at its
  /// start.
  std::int64_t samples_done = 0;
  /// The attempt that saved it, counted at the snapshot path over all jobs that used it; set by
  /// save().
  std::int64_t attempt = 0;
  /// Scalars of the optimizer, losses and the like. Restored bit for bit, infinities too; of a NaN
  /// only that it is one.
  std::map<std::string, double> scalars = {};
  /// Anything else, such as settings that a resumed run should compare.
  std::map<std::string, std::string> notes = {};

  friend bool operator==(const SnapshotState&, const SnapshotState&) = default;
};

struct SnapshotOptions {
  /// A directory, made when it is not there. Relative to the working directory.
  std::filesystem::path path = "snapshot.ddp";
  /// Snapshots kept, the newest ones; at least 1. Two, so that there is one to fall back on when
  /// the newest turns out damaged.
  int keep = 2;
  /// For an evaluation of what another job saves: load() leaves the path to that job, which could
  /// not save any more otherwise, and save() throws InvalidArgument.
  bool read_only = false;
  /// Takes one line, without a newline at its end, for each thing that a person should know but
  /// that does not stop training. Left empty: stderr.
  std::function<void(std::string_view)> say = {};
};

enum class SaveResult : std::uint8_t {
  saved,    ///< on the disk, synced
  failed,   ///< said why; training can go on; the snapshots that were there are still there
  not_mine  ///< another rank writes for this one
};

/// How a save_async() ended on the rank that wrote.
struct SaveOutcome {
  SaveResult result = SaveResult::saved;  ///< `saved` or `failed`
  SnapshotState state;                    ///< what was given, with its attempt
  Progress::Moment copied;                ///< when it was copied, for Progress::saved()
};

/// Not thread-safe. The context must outlive it.
class DDP_EXPORT Snapshot {
 public:
  /// Makes the directory where it can and finds out, all ranks together, whether they share it.
  /// Collective. Throws InvalidArgument when `keep` is below 1.
  Snapshot(const Context& context, SnapshotOptions options = {});
  /// Waits for the save that is being written, if there is one.
  ~Snapshot();
  Snapshot(Snapshot&&) noexcept;
  Snapshot& operator=(Snapshot&&) noexcept;

  /// Fills the memory of `tensors` (from any device) and returns the rest; nullopt, and `tensors`
  /// as they were, when no rank has a snapshot. Collective.
  ///
  /// From now on this attempt alone saves at the path: a worker of an earlier one, which may have
  /// been stopped in the middle of a save, can no longer commit it.
  ///
  /// Chosen is the newest snapshot that every rank which has any could read and verify; when they
  /// have none in common, the newest of all. Ranks that lack it are sent it by one that has it. A
  /// damaged snapshot is passed over in favour of the one before, with one line that names file and
  /// reason. Throws DoNotRetry, on every rank alike, when the chosen one is of another model (its
  /// name, or a tensor's name, shape or type), when a newer one is of a later version of ddprun or
  /// may not be read, or when the path is not a directory: nothing is overwritten then. Throws
  /// another ddp::Error when the disk cannot be read. All ranks name the same model and tensors.
  [[nodiscard]] std::optional<SnapshotState> load(std::string_view model,
                                                  std::span<const NamedTensor> tensors);

  /// Writes state and tensors as a new snapshot, if this rank is the one to write: rank 0 where the
  /// directory is shared, else local rank 0 of each node. Call it on every rank, at the same place
  /// of the training; it does not wait for the others. A full disk or any other failure is said in
  /// one line, not thrown. Call load() once before the first save(), so that all ranks agree on
  /// numbers. Throws DoNotRetry when a later attempt saves at the path by now: this
  /// worker's is over. Throws InvalidArgument on a tensor name that is empty or given twice.
  SaveResult save(SnapshotState state, std::span<const NamedTensor> tensors);

  /// The same without waiting for the disk: returns when state and tensors are copied to memory of
  /// the host, which is kept for the next time (as large as the tensors, on writing ranks alone).
  /// They may change from then on. What cannot be written is said, and a later attempt throws, in
  /// the next call of this object.
  ///
  /// One save is written at a time: this one, save() and load() first wait for the one before. When
  /// save_async() has to, it says so, once. Returns how the save before ended, unless poll() or
  /// wait() has returned it already.
  std::optional<SaveOutcome> save_async(SnapshotState state, std::span<const NamedTensor> tensors);
  /// How the last save_async() ended: once, and nullopt while it goes on or where this rank does
  /// not write. Throws ddp::Error as save() does. A load of an atomic as a rule: cheap enough for
  /// every step.
  std::optional<SaveOutcome> poll();
  /// The same, but waits for its end first: before a program leaves or reads what it has saved.
  std::optional<SaveOutcome> wait();

  [[nodiscard]] const std::filesystem::path& path() const;
  /// Why this rank can never save at the path, as far as the system tells beforehand (rights, a
  /// read-only disk, what is no directory); empty: it can, or another rank writes for it.
  [[nodiscard]] std::string refusal() const;
  /// Whether all ranks see one directory.
  [[nodiscard]] bool shared() const;
  /// Whether this rank writes: the others' tensors are not looked at in a save.
  [[nodiscard]] bool writes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
