// SnapshotDirectory: the numbered snapshots at one path on one disk: find and verify, read, write
// aside and rename, drop old ones. It knows nothing of other ranks; Snapshot does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "worker_runtime/file_layer.h"
#include "worker_runtime/snapshot_choice.h"
#include "worker_runtime/snapshot_format.h"

namespace ddp {

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

  /// Reads and verifies every snapshot, newest first. Damaged ones are complaints in the report,
  /// and remembered: they are the first to go when the next one has been written. The newest
  /// verified is kept in memory until take() or forget().
  RankReport scan();
  /// The bytes of a snapshot that scan() verified; read again, and verified again, unless it is the
  /// one kept. Can be taken once.
  Result<LoadedSnapshot> take(const Candidate& id);
  void forget() { newest_.reset(); }

  /// Prepares, writes the snapshot aside, syncs, renames, syncs. On an Error nothing new
  /// is visible under a snapshot's name, except when the very last sync failed: then it is there,
  /// complete, but may not survive a crash of the machine. Earlier snapshots are never touched.
  Result<void> write(std::uint64_t number, std::int64_t attempt, const std::string& state_json,
                     const std::string& tensor_header, const HostTensors& tensors);
  /// Removes what is beyond the newest `keep`, damaged ones and left-overs. Failure leaves more
  /// than that, and is told in the Error; nothing newer depends on it.
  Result<void> prune();

  [[nodiscard]] const Path& path() const { return path_; }

 private:
  Result<LoadedSnapshot> read(std::uint64_t number);
  Result<void> write_aside(const Path& aside, std::uint64_t number, std::int64_t attempt,
                           const std::string& state_json, const std::string& tensor_header,
                           const HostTensors& tensors);
  Result<ManifestEntry> write_file(const Path& aside, const char* name, const HostTensors& parts);
  Result<void> remove(const std::string& name);

  std::shared_ptr<FileLayer> files_;
  Path path_;
  std::size_t keep_;
  bool parent_unsynced_ = false;  ///< the directory's own name may not survive a crash yet
  std::optional<LoadedSnapshot> newest_;
  std::set<std::uint64_t> damaged_;
};

}  // namespace ddp
