// FileLayer: the few things that a snapshot does with files, as an interface, so that tests can
// lose unsynced data, cut a write short, fill the disk or fail any single call. Not a general file
// library: paths are plain, every call blocks, errors carry the path and the system's reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "worker_runtime/snapshot/snapshot_fault.h"

namespace ddp {

/// A file being written from its start. Destroyed without close(): whatever was written stays, and
/// nothing is known of its fate.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// All of the bytes, or an Error (then any part of them may be in the file).
  virtual ddprun::Result<void> append(std::span<const std::byte> bytes) = 0;
  /// Returns when everything appended is on the disk.
  virtual ddprun::Result<void> sync() = 0;
  /// Nothing may be called after it. Reports late errors of network file systems.
  virtual ddprun::Result<void> close() = 0;
};

class FileLayer {
 public:
  using Path = std::filesystem::path;

  virtual ~FileLayer() = default;
  /// True when it was made, false when it was there already. An Error when its parent is not there,
  /// or a file is in its place.
  virtual ddprun::Result<bool> make_directory(const Path& path) = 0;
  /// The same, with its parents.
  virtual ddprun::Result<bool> make_directories(const Path& path) = 0;
  /// Names in the directory, in ascending order; none when there is no such directory. Damaged when
  /// it is not a directory; else fault_of() says why it is not read.
  virtual ReadResult<std::vector<std::string>> list(const Path& path) = 0;
  /// The whole file. Damaged when it is not there, is not a regular file, or is longer than
  /// `bytes_max`; else fault_of() says why it is not read.
  virtual ReadResult<std::vector<std::byte>> read(const Path& path, std::size_t bytes_max) = 0;
  /// A new file; an old one of that name is emptied.
  virtual ddprun::Result<std::unique_ptr<OutputFile>> create(const Path& path) = 0;
  /// Why the file cannot be opened for reading; nothing: it can.
  virtual std::optional<Unread> refuses_reads(const Path& path) = 0;
  /// Why nobody will ever add names to that directory (damaged), or this user will not (forbidden);
  /// nothing: it is worth to try. Of one that is not there: of the nearest above it.
  virtual std::optional<Unread> refuses_writes(const Path& path) = 0;
  /// Whether that name leads to another place. What is not there does not.
  virtual bool is_link(const Path& path) = 0;
  /// Makes names that were added to, renamed in or removed from the directory survive a crash.
  virtual ddprun::Result<void> sync_directory(const Path& path) = 0;
  /// Atomic. An Error when `to` is there.
  virtual ddprun::Result<void> rename(const Path& from, const Path& to) = 0;
  /// A file, or a directory with all that is in it. What is not there is no error.
  virtual ddprun::Result<void> remove_all(const Path& path) = 0;
};

/// The machine's own.
std::shared_ptr<FileLayer> real_files();

}  // namespace ddp
