#include "agent/host/oom_detector.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

namespace ddprun {
namespace {

/// The number that follows `label`; none when there is no such text.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view label) {
  const auto at = text.find(label);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  text.remove_prefix(at + label.size());
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

/// The nearest group that keeps count; the root of v2 keeps none.
std::string find_counter(const FileReader& read) {
  for (const auto& [controller, file] :
       {std::pair("", "/memory.events"), std::pair("memory", "/memory.oom_control")}) {
    const auto directories = control_group_directories(read, controller);
    if (!directories.empty()) {
      std::string path = directories.front() + file;
      if (parse_oom_kills(read(path).value_or(""))) {
        return path;
      }
    }
  }
  return {};
}

}  // namespace

std::optional<std::uint64_t> parse_oom_kills(std::string_view text) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    if (line.starts_with("oom_kill ")) {
      return number_after(line, "oom_kill ");
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

std::optional<KernelOomKill> parse_kernel_oom(std::string_view record) {
  // "6,1234,5678901,-;Memory cgroup out of memory: Killed process 42 (python) total-vm:..."
  const auto message = record.substr(std::min(record.find(';'), record.size()));
  const auto pid = number_after(message, "Killed process ");
  // "Out of memory: ..." for the machine, "Memory cgroup out of memory: ..." for a limit.
  if (!pid || message.find("ut of memory") == std::string_view::npos) {
    return std::nullopt;
  }
  return KernelOomKill{static_cast<pid_t>(*pid),
                       message.find("emory cgroup out of memory") != std::string_view::npos};
}

OomDetector::OomDetector(FileReader read, bool with_log)
    : read_(std::move(read)),
      counter_(find_counter(read_)),
      log_(with_log ? ::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1) {
  if (log_) {
    // Only what comes from now on: an old record may name a pid that is in use again.
    ::lseek(log_.get(), 0, SEEK_END);
  }
  begin();
}

void OomDetector::begin() {
  // The count only grows, so what an attempt lost is the difference.
  before_ = oom_kills();
}

std::optional<std::uint64_t> OomDetector::oom_kills() const {
  return counter_.empty() ? std::nullopt : parse_oom_kills(read_(counter_).value_or(""));
}

/// One record per read. Others write to it as well: a bound keeps the loop's turn short.
void OomDetector::read_log() {
  constexpr int kRecordsPerTurn = 10'000;
  constexpr std::size_t kKillsKept = 1'000;
  std::array<char, 8192> record;
  for (int i = 0; log_ && i < kRecordsPerTurn; ++i) {
    const ssize_t got = ::read(log_.get(), record.data(), record.size());
    if (got < 0 && errno == EPIPE) {
      continue;  // records were overwritten before they were read: goes on with the oldest
    }
    if (got <= 0) {
      return;
    }
    if (const auto kill = parse_kernel_oom({record.data(), static_cast<std::size_t>(got)})) {
      if (kills_.size() >= kKillsKept) {
        // The oldest goes: a verdict is asked for within seconds of the kill.
        kills_.erase(kills_.begin());
      }
      kills_.push_back(*kill);
    }
  }
}

OomDetector::Verdict OomDetector::verdict(pid_t pid) {
  read_log();
  for (auto kill = kills_.rbegin(); kill != kills_.rend(); ++kill) {
    if (kill->pid == pid) {
      return kill->by_limit ? Verdict::killed_by_limit : Verdict::killed_by_machine;
    }
  }
  // Without the log only the count is left: it says that the group lost a process, but not which.
  const auto now = oom_kills();
  if (now && before_) {
    return *now > *before_ ? Verdict::killed_one_of_us : Verdict::not_memory;
  }
  return Verdict::unknown;
}

std::string memory_clause(OomDetector::Verdict verdict, bool sigkill) {
  switch (verdict) {
    case OomDetector::Verdict::killed_by_limit:
      return "out of memory: the kernel killed it at the memory limit of its control group";
    case OomDetector::Verdict::killed_by_machine:
      return "out of memory: the kernel killed it, for this machine's memory was full";
    case OomDetector::Verdict::killed_one_of_us:
      return sigkill ? "out of memory: its control group counts a kill by the kernel"
                     : "out of memory: the kernel killed a process of its control group";
    case OomDetector::Verdict::not_memory:
      return sigkill ? "not by the kernel for want of memory" : "";
    case OomDetector::Verdict::unknown:
      return sigkill ? "whether memory had run out cannot be seen here" : "";
  }
  return "";
}

}  // namespace ddprun
