#include "agent/hang/process_usage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "agent/process/process_tree.h"

namespace ddprun {

std::chrono::nanoseconds cpu_time_of(pid_t pid) {
  ProcessTree tree(ProcessTree::best_source());
  std::vector<pid_t> line{pid};
  std::uint64_t ticks = 0;
  // Data loaders compute in children, so the whole tree counts. The time of a child that ends is
  // missing until its parent has reaped it.
  for (std::size_t next = 0; next < line.size(); ++next) {
    if (const auto stat = read_proc_stat(line[next])) {
      ticks += stat->cpu_ticks;
    }
    const std::vector<pid_t> children = tree.children(line[next]);
    line.insert(line.end(), children.begin(), children.end());
  }
  // proc(5): times are in units of sysconf(_SC_CLK_TCK), as a rule 100 a second.
  static const auto kPerSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::chrono::nanoseconds(ticks * (1'000'000'000 / kPerSecond));
}

std::uint64_t growth_of(const std::string& path) {
  struct stat status {};
  // A pipe has no size: output that goes there is not seen (docs/hangs.md).
  if (path.empty() || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return 0;
  }
  return static_cast<std::uint64_t>(status.st_size);
}

std::uint64_t growth_of_stdout(const std::string& path) {
  return growth_of(path.empty() ? "/proc/self/fd/1" : path);
}

}  // namespace ddprun
