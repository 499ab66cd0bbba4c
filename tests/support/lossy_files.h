// LossyFiles: a disk in memory that loses what a real one may lose, and fails when told to. For
// every test that asks what is left after a crash, a full disk or a failed call.
//
// The rules are those that a careful program must assume: a file's bytes survive a crash once the
// file was synced; a name (new, renamed or removed) once its directory was synced. What was not
// synced is lost: a file that was never synced comes back empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "worker_runtime/snapshot/file_layer.h"

namespace ddp {

class LossyFiles : public FileLayer {
 public:
  LossyFiles();

  /// The call of this number from now on (0 = the next one) fails, once; an append that fails has
  /// written the first half of its bytes.
  void fail_call(std::size_t number) { failing_call_ = calls_ + number; }
  /// A directory of another user: no name in it changes, and it is not moved.
  void close(const Path& path) { closed_.insert(path); }
  /// A file whose reads fail with this errno from now on, or a directory whose syncs do.
  void withhold(const Path& path, int errno_value) { withheld_[path] = errno_value; }
  /// That call and every one after it fail: the process was killed there.
  void die_at_call(std::size_t number) { dead_from_call_ = calls_ + number; }
  /// `what` runs before the call of this number from now on, once: what others do to the disk while
  /// this process is stopped there.
  void run_before_call(std::size_t number, std::function<void()> what);
  /// Bytes that all files together may hold; appends beyond fail after filling it up.
  void set_capacity(std::size_t bytes) { capacity_bytes_ = bytes; }
  /// Calls so far, of files and directories.
  [[nodiscard]] std::size_t calls() const { return calls_; }
  [[nodiscard]] std::size_t used_bytes() const;

  /// The machine loses power and comes back: unsynced data and names are gone, faults too.
  void crash();
  /// Ends the faults only.
  void heal();

  /// A file's bytes, to be damaged by hand. The file must be there.
  std::vector<std::byte>& bytes(const Path& path);

  ddprun::Result<bool> make_directory(const Path& path) override;
  ddprun::Result<bool> make_directories(const Path& path) override;
  ReadResult<std::vector<std::string>> list(const Path& path) override;
  ReadResult<std::vector<std::byte>> read(const Path& path, std::size_t bytes_max) override;
  std::optional<Unread> refuses_reads(const Path& path) override;
  std::optional<Unread> refuses_writes(const Path& path) override;
  bool is_link(const Path& /*path*/) override { return false; }
  ddprun::Result<std::unique_ptr<OutputFile>> create(const Path& path) override;
  ddprun::Result<void> sync_directory(const Path& path) override;
  ddprun::Result<void> rename(const Path& from, const Path& to) override;
  ddprun::Result<void> remove_all(const Path& path) override;

 private:
  struct Node;
  using Names = std::map<std::string, std::shared_ptr<Node>>;
  /// A file or a directory, as programs see it and as the disk has it.
  struct Node {
    bool is_directory = false;
    std::vector<std::byte> content;
    std::vector<std::byte> durable_content;
    Names names;
    Names durable_names;
  };
  class Output;

  /// True when this very call must fail.
  bool next_call_fails();
  ddprun::Result<bool> make(const Path& path);
  std::shared_ptr<Node> find(const Path& path) const;
  static void lose(Node& node);
  static std::size_t size_of_tree(const Node& node);

  std::shared_ptr<Node> root_;
  std::size_t calls_ = 0;
  std::size_t capacity_bytes_ = std::numeric_limits<std::size_t>::max();
  std::map<Path, int> withheld_;
  std::set<Path> closed_;
  std::optional<std::size_t> hooked_call_;
  std::function<void()> hook_;
  std::optional<std::size_t> failing_call_;
  std::optional<std::size_t> dead_from_call_;
};

}  // namespace ddp
