#include "tests/support/control_group.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <system_error>
#include <utility>

#include "tests/support/event_wait.h"

namespace ddprun::test {
namespace {

const std::filesystem::path kRoot = "/sys/fs/cgroup";

}  // namespace

ControlGroup::ControlGroup(const std::filesystem::path& parent) {
  static std::atomic<int> count{0};
  folder_ = parent / ("ddprun-test-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
  std::error_code error;
  if (!std::filesystem::create_directory(folder_, error)) {
    why_not_ = "cannot make " + folder_.string() + ": " + error.message();
    need_ = std::filesystem::exists(parent, error) ? "cgroup" : "kernel";
    folder_.clear();
  }
}

ControlGroup ControlGroup::freezer() {
  ControlGroup group(kRoot / "freezer");
  if (group.why_not_.empty()) {
    group.set("freezer.state", "THAWED");
  }
  return group;
}

ControlGroup ControlGroup::memory(std::uint64_t bytes_max) {
  const std::string limit = std::to_string(bytes_max);
  if (std::filesystem::exists(kRoot / "memory")) {
    ControlGroup group(kRoot / "memory");
    if (group.why_not_.empty() && group.set("memory.limit_in_bytes", limit) &&
        std::filesystem::exists(group.folder_ / "memory.memsw.limit_in_bytes")) {
      group.set("memory.memsw.limit_in_bytes", limit);
    }
    return group;
  }
  ControlGroup group(kRoot);
  if (group.why_not_.empty() && group.set("memory.max", limit) &&
      std::filesystem::exists(group.folder_ / "memory.swap.max")) {
    group.set("memory.swap.max", "0");
  }
  return group;
}

ControlGroup ControlGroup::processor(double share) {
  // Short periods, so that a process is slow rather than stopped and started; but the kernel takes
  // no quota below 1 ms.
  constexpr int kPeriodUs = 20000;
  const std::string quota = std::to_string(static_cast<int>(share * kPeriodUs));
  if (std::filesystem::exists(kRoot / "cpu")) {
    ControlGroup group(kRoot / "cpu");
    if (group.why_not_.empty() && group.set("cpu.cfs_period_us", std::to_string(kPeriodUs))) {
      group.set("cpu.cfs_quota_us", quota);
    }
    return group;
  }
  ControlGroup group(kRoot);
  if (group.why_not_.empty()) {
    group.set("cpu.max", quota + " " + std::to_string(kPeriodUs));
  }
  return group;
}

ControlGroup::ControlGroup(ControlGroup&& other) noexcept
    : folder_(std::exchange(other.folder_, {})),
      why_not_(std::move(other.why_not_)),
      need_(std::move(other.need_)) {}

ControlGroup::~ControlGroup() {
  if (!folder_.empty()) {
    thaw();
    (void)wait_until([&] { return ::rmdir(folder_.c_str()) == 0; }, std::chrono::seconds(5));
  }
}

bool ControlGroup::set(const std::string& file, const std::string& value) {
  std::ofstream out(folder_ / file);
  if (!(out << value << std::flush)) {
    why_not_ = (folder_ / file).string() + " cannot be set to " + value;
  }
  return why_not_.empty();
}

void ControlGroup::add(pid_t pid) const {
  std::ofstream(members_file()) << pid;
}

void ControlGroup::freeze() const {
  std::ofstream(folder_ / "freezer.state") << "FROZEN";
}

void ControlGroup::thaw() const {
  if (std::filesystem::exists(folder_ / "freezer.state")) {
    std::ofstream(folder_ / "freezer.state") << "THAWED";
  }
}

}  // namespace ddprun::test
