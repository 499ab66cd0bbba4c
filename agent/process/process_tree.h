// ProcessTree: whose child is whose, as /proc has it at the moment of asking. No history: a
// process may be gone, or have a new parent, by the time its caller looks at the answer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The fields that we need of /proc/PID/stat.
struct ProcStat {
  std::string name;  ///< the command's name, at most 15 bytes
  char state = '?';  ///< R, S, D, Z, T ...
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  std::uint64_t cpu_ticks = 0;  ///< its own time and that of its reaped children
  std::uint64_t resident_pages = 0;
  bool exiting = false;  ///< its main thread has begun to exit (PF_EXITING): no signal changes that
};

/// The entries of a directory of /proc whose names are numbers; none when it cannot be read.
std::vector<pid_t> numbers_in(const std::string& directory);

/// None when the text is no stat line. The name may hold spaces, brackets and line ends.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

/// None when there is no such process (any more).
std::optional<ProcStat> read_proc_stat(pid_t pid);

/// Every thread of it has begun to exit: it has closed its files, or is about to.
bool all_threads_exit(pid_t pid);

/// Whether `ancestor` is among the parents of `pid`.
bool descends_from(pid_t pid, pid_t ancestor);

class ProcessTree {
 public:
  enum class Source : std::uint8_t {
    kernel_lists,  ///< /proc/PID/task/TID/children: costs only what it finds
    scan,          ///< all of /proc/*/stat, once per object: kernels without CONFIG_PROC_CHILDREN
  };
  /// The better one that this kernel has.
  static Source best_source();

  explicit ProcessTree(Source source) : source_(source) {}

  /// Of all threads of `parent`, zombies included. The kernel's lists may miss a child while its
  /// siblings are being reaped; so ask again until the answer is what you wait for.
  std::vector<pid_t> children(pid_t parent);

 private:
  std::vector<pid_t> listed(pid_t parent) const;
  std::vector<pid_t> scanned(pid_t parent);

  Source source_;
  std::optional<std::map<pid_t, std::vector<pid_t>>> scan_;
};

}  // namespace ddprun
