// SnapshotDirectory: the numbered snapshots at one path on one disk: find and verify, read, write
// aside and rename, drop old ones. It knows nothing of other ranks; Snapshot does.
//
// Attempts fence each other. Each leaves a mark here, a directory, and takes away the marks of
// earlier ones. A writer writes inside its mark and moves the complete snapshot out, and moves in
// what it removes: without the mark both fail in the kernel, however long the writer was stopped
// and wherever. docs/snapshot.md tells why that leaves no gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "worker_runtime/snapshot/file_layer.h"
#include "worker_runtime/snapshot/snapshot_choice.h"
#include "worker_runtime/snapshot/snapshot_format.h"

namespace ddp {

// What people can do.
inline constexpr char kOneJob[] = "let one job at a time use a snapshot path";
inline constexpr char kAnotherPath[] = "choose another snapshot path";

/// A snapshot in memory, read and verified.
struct LoadedSnapshot {
  Candidate id;
  std::string state_json;
  std::vector<std::byte> tensors;  ///< the whole of tensors.safetensors
};

/// A tensor's bytes on the host, in the order of the tensor header.
using HostTensors = std::vector<std::span<const std::byte>>;

class SnapshotDirectory {
 public:
  using Path = FileLayer::Path;

  SnapshotDirectory(std::shared_ptr<FileLayer> files, Path path, int keep);

  /// Makes the directory when it is not there.
  Result<void> prepare();

  /// What is here by marks and manifests, before a claim(): as scan(), but nothing is verified, and
  /// damage is no complaint.
  RankReport look();
  /// Attempt `attempt` (at least 1) writes here from now on, and no earlier one does: what an
  /// earlier one has not committed when this returns it never will. Any number of times. An Error
  /// when the mark cannot be made, when another process made it, or when a later attempt has left
  /// its own.
  Result<void> claim(std::uint64_t attempt);
  /// The reason, when this user can never save here.
  std::optional<ddprun::Error> closed();
  /// A later attempt's mark was seen: everything that writes here is an Error from now on.
  [[nodiscard]] bool superseded() const { return later_attempt_ != 0; }

  /// Reads and verifies every snapshot, newest first. Damaged ones are complaints in the report,
  /// and remembered: they are the first to go when the next one has been written. Those withheld
  /// may be good, and are kept as others are. The newest verified is kept in memory until take() or
  /// forget().
  RankReport scan();
  /// The bytes of a snapshot that scan() verified; read again, and verified again, unless it is the
  /// one kept. Can be taken once.
  Result<LoadedSnapshot> take(const Candidate& id);
  void forget() { newest_.reset(); }

  /// Claims, writes the snapshot aside, syncs, renames, syncs. On an Error nothing new
  /// is visible under a snapshot's name, except when the very last sync failed: then it is there,
  /// complete, but may not survive a crash of the machine. Earlier snapshots are never touched.
  Result<void> write(std::uint64_t number, std::uint64_t attempt, const std::string& state_json,
                     const std::string& tensor_header, const HostTensors& tensors);
  /// Removes what is beyond the newest `keep`, damaged ones and left-overs; after a claim() or
  /// write(). Failure leaves more than that, and is told in the Error; nothing newer depends on it.
  Result<void> prune();

  [[nodiscard]] const Path& path() const { return path_; }

 private:
  ReadResult<Manifest> read_manifest(std::uint64_t number, std::uint64_t* digest);
  ReadResult<LoadedSnapshot> read(std::uint64_t number);
  Result<std::vector<std::string>> names_unless_superseded();
  Result<void> move_into_mark(const std::vector<std::string>& names);
  Result<void> empty_mark();
  Result<bool> is_snapshot(const std::string& name);
  bool is_of_others(const std::string& name);
  ddprun::Error explained(const ddprun::Error& error);
  Result<void> write_aside(const Path& aside, std::uint64_t number, const std::string& state_json,
                           const std::string& tensor_header, const HostTensors& tensors);
  Result<ManifestEntry> write_file(const Path& aside, const char* name, const HostTensors& parts);
  [[nodiscard]] Path mark() const { return path_ / mark_name(attempt_); }

  std::shared_ptr<FileLayer> files_;
  Path path_;
  std::size_t keep_;
  bool parent_unsynced_ = false;  ///< the directory's own name may not survive a crash yet
  std::optional<LoadedSnapshot> newest_;
  std::set<std::uint64_t> damaged_;
  std::uint64_t marked_ = 0;         ///< the highest attempt that look() saw a mark of
  std::uint64_t attempt_ = 0;        ///< whose mark this object made; 0: none yet
  std::uint64_t later_attempt_ = 0;  ///< whose mark was seen; 0: none
};

}  // namespace ddp
