// ControlGroup: a group of processes that the kernel limits or freezes, for one test. Needs root
// and a kernel that lets it have one: a test asks why_not() first, by NEEDS_GROUP() of needs.h, and
// is skipped for that.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace ddprun::test {

class ControlGroup {
 public:
  /// A version 1 freezer, whose frozen processes not even SIGKILL ends: they wait in the kernel
  /// (state D) as for a dead disk. Version 2 has no such thing: what it froze can be killed.
  static ControlGroup freezer();
  /// Beyond so many bytes, swapped out or not, the kernel kills a process of the group.
  static ControlGroup memory(std::uint64_t bytes_max);

  /// All its processes together have so much of one processor.
  static ControlGroup processor(double share);

  ControlGroup(ControlGroup&& other) noexcept;
  ControlGroup& operator=(ControlGroup&&) = delete;
  /// Thaws it; it goes away with the last process in it.
  ~ControlGroup();

  /// Empty when there is one.
  [[nodiscard]] const std::string& why_not() const { return why_not_; }
  /// For SKIP_TEST: "kernel" where there is no such kind of group at all (a Debian 12 mounts
  /// version 2 alone, which has no freezer), else "cgroup".
  [[nodiscard]] const std::string& need() const { return need_; }
  void add(pid_t pid) const;
  void freeze() const;
  void thaw() const;
  /// Where a shell writes its own number: "echo $$ > FILE".
  [[nodiscard]] std::string members_file() const { return folder_ / "cgroup.procs"; }

 private:
  explicit ControlGroup(const std::filesystem::path& parent);
  /// False, with the reason kept, when the kernel does not take it.
  bool set(const std::string& file, const std::string& value);

  std::filesystem::path folder_;
  std::string why_not_;
  std::string need_ = "cgroup";
};

}  // namespace ddprun::test
