// OomDetector: whether the kernel killed a process of this node for want of memory. A SIGKILL says
// nothing of who sent it; the memory group's own count of its kills does, and so does the kernel's
// log where it may be read.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/control_group.h"
#include "rendezvous/base/fd.h"

namespace ddprun {

/// Pure. "oom_kill 3" among the lines of memory.events (cgroup v2) or memory.oom_control (v1).
std::optional<std::uint64_t> parse_oom_kills(std::string_view text);

/// Pure. The process that a record of the kernel's log says was killed for want of memory.
struct KernelOomKill {
  pid_t pid = 0;
  bool by_limit = false;  ///< a control group's limit, and not all of the machine's memory
};
std::optional<KernelOomKill> parse_kernel_oom(std::string_view record);

class OomDetector {
 public:
  enum class Verdict : std::uint8_t {
    killed_by_limit,    ///< this very process, at its control group's limit
    killed_by_machine,  ///< this very process, since the machine's memory was full
    killed_one_of_us,   ///< some process of this control group, since the last begin()
    not_memory,         ///< the kernel killed none of us for want of memory
    unknown,            ///< neither the count nor the log can be read
  };

  /// `with_log`: process numbers in the kernel's log are those of here.
  OomDetector(FileReader read, bool with_log);

  /// From here on: an attempt begins.
  void begin();
  /// What is known of the end of `pid` by now. Reads the log on from where it was.
  Verdict verdict(pid_t pid);

 private:
  [[nodiscard]] std::optional<std::uint64_t> oom_kills() const;
  void read_log();

  FileReader read_;
  std::string counter_;  ///< path of the file with the count; empty: there is none
  std::optional<std::uint64_t> before_;
  Fd log_;  ///< /dev/kmsg; empty where it may not be read
  std::vector<KernelOomKill> kills_;
};

/// One clause for a report; empty for not_memory of a process that was not killed by SIGKILL.
std::string memory_clause(OomDetector::Verdict verdict, bool sigkill);

}  // namespace ddprun
