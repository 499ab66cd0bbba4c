#include "agent/hang/process_usage.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "agent/process/process_tree.h"
#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

/// A process's own time and that of its reaped children, in ticks.
std::uint64_t ticks_of(pid_t pid) {
  const Fd file(::open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t size = file ? ::read(file.get(), text, sizeof text) : 0;
  std::string line(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  const auto close = line.rfind(')');
  if (close == std::string::npos) {
    return 0;
  }
  std::istringstream fields(line.substr(close + 1));
  std::string skipped;
  constexpr int kBeforeTimes = 11;  // from "state", the third field, to "cmajflt", the 13th
  for (int i = 0; i < kBeforeTimes; ++i) {
    fields >> skipped;
  }
  std::uint64_t own_user = 0;
  std::uint64_t own_system = 0;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> own_user >> own_system >> user >> system;
  return own_user + own_system + user + system;
}

}  // namespace

std::chrono::nanoseconds cpu_time_of(pid_t pid) {
  ProcessTree tree(ProcessTree::best_source());
  std::vector<pid_t> line{pid};
  std::uint64_t ticks = 0;
  for (std::size_t next = 0; next < line.size(); ++next) {
    ticks += ticks_of(line[next]);
    const std::vector<pid_t> children = tree.children(line[next]);
    line.insert(line.end(), children.begin(), children.end());
  }
  static const auto kPerSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::chrono::nanoseconds(ticks * (1'000'000'000 / kPerSecond));
}

std::uint64_t growth_of(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return 0;
  }
  return static_cast<std::uint64_t>(status.st_size);
}

}  // namespace ddprun
