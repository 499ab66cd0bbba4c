// FileAside: a file that is there completely or not at all. It is written under a name of its own
// in the same folder, brought to the disk and renamed; what was not finished is removed at the end
// of the object's life. (Snapshots have their own way, worker_runtime/snapshot/: theirs also fences
// off earlier attempts.)
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp {

/// All calls throw ddp::Error when the disk does not take it; it begins with the path.
class FileAside {
 public:
  /// The name while it is written: `path`.`mark`<process>.<number>.partial. Others of this path and
  /// mark are removed where no living process writes them; a writer holds a lock (flock(2)), so any
  /// number of jobs may write the same path at once, and the last one to finish is read from then
  /// on.
  explicit FileAside(std::filesystem::path path, const std::string& mark = "");
  ~FileAside();
  FileAside(const FileAside&) = delete;
  FileAside& operator=(const FileAside&) = delete;

  void append(std::span<const std::byte> bytes);
  /// Overwrites what is at the start of the file.
  void write_start(std::span<const std::byte> bytes);
  /// Returns when the complete file has its name, and both are on the disk. Nothing may be called
  /// after it.
  void finish();

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void write_all(std::span<const std::byte> bytes);
  void flush();

  std::filesystem::path path_;
  std::filesystem::path aside_;
  std::vector<std::byte> buffer_;
  int fd_ = -1;
};

}  // namespace ddp
