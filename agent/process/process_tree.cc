#include "agent/process/process_tree.h"

#include <dirent.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Cuts the next word off `text`; empty at its end.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

/// `folder`: of a process, or of one of its threads.
std::optional<ProcStat> read_stat_in(const std::string& folder) {
  const auto text = read_file(folder + "/stat");
  return text ? parse_proc_stat(*text) : std::nullopt;
}

}  // namespace

std::vector<pid_t> numbers_in(const std::string& path) {
  std::vector<pid_t> numbers;
  DIR* const directory = ::opendir(path.c_str());
  // A process may end at any time, and its directory with it: an empty list is then the answer.
  if (directory == nullptr) {
    return numbers;
  }
  while (const dirent* entry = ::readdir(directory)) {
    if (const auto number = parse_number<pid_t>(entry->d_name)) {
      numbers.push_back(*number);
    }
  }
  ::closedir(directory);
  return numbers;
}

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  const auto open = text.find('(');
  // proc(5): the name may hold any byte, brackets too, but no field behind it has a bracket.
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  ProcStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  const std::string_view state = next_word(rest);
  const auto parent = parse_number<pid_t>(next_word(rest));
  const auto group = parse_number<pid_t>(next_word(rest));
  const auto session = parse_number<pid_t>(next_word(rest));
  if (state.size() != 1 || !parent || !group || !session) {
    return std::nullopt;
  }
  stat.state = state.front();
  stat.parent = *parent;
  stat.group = *group;
  stat.session = *session;
  next_word(rest);                    // the terminal
  next_word(rest);                    // its foreground group
  constexpr unsigned kExiting = 0x4;  // PF_EXITING of the kernel's include/linux/sched.h
  stat.exiting = (parse_number<unsigned>(next_word(rest)).value_or(0) & kExiting) != 0;
  constexpr int kFaults = 4;  // minflt, cminflt, majflt, cmajflt
  for (int i = 0; i < kFaults; ++i) {
    next_word(rest);
  }
  constexpr int kTimes = 4;  // utime, stime, cutime, cstime
  for (int i = 0; i < kTimes; ++i) {
    stat.cpu_ticks += parse_number<std::uint64_t>(next_word(rest)).value_or(0);
  }
  constexpr int kUpToSize = 6;  // priority, nice, num_threads, itrealvalue, starttime, vsize
  for (int i = 0; i < kUpToSize; ++i) {
    next_word(rest);
  }
  stat.resident_pages = parse_number<std::uint64_t>(next_word(rest)).value_or(0);
  return stat;
}

std::optional<ProcStat> read_proc_stat(pid_t pid) {
  return read_stat_in("/proc/" + std::to_string(pid));
}

bool all_threads_exit(pid_t pid) {
  const std::string tasks = fmt::format("/proc/{}/task/", pid);
  const std::vector<pid_t> threads = numbers_in(tasks);
  return std::all_of(threads.begin(), threads.end(), [&](pid_t thread) {
    const auto stat = read_stat_in(tasks + std::to_string(thread));
    return !stat || stat->exiting;  // one that is gone has exited
  });
}

bool descends_from(pid_t pid, pid_t ancestor) {
  // Numbers are used again while we climb: what looks like a circle must end some day.
  constexpr int kDepthMax = 1000;
  for (int depth = 0; pid > 1 && depth < kDepthMax; ++depth) {
    const auto stat = read_proc_stat(pid);
    if (!stat) {
      return false;
    }
    if (stat->parent == ancestor) {
      return true;
    }
    pid = stat->parent;
  }
  return false;
}

ProcessTree::Source ProcessTree::best_source() {
  // proc(5): the file exists where the kernel was built with CONFIG_PROC_CHILDREN.
  return ::access("/proc/thread-self/children", R_OK) == 0 ? Source::kernel_lists : Source::scan;
}

std::vector<pid_t> ProcessTree::children(pid_t parent) {
  return source_ == Source::kernel_lists ? listed(parent) : scanned(parent);
}

std::vector<pid_t> ProcessTree::listed(pid_t parent) const {
  const std::string tasks = fmt::format("/proc/{}/task/", parent);
  std::vector<pid_t> found;
  // The kernel keeps one list per thread: a child belongs to the thread that forked it.
  for (const pid_t task : numbers_in(tasks)) {
    const auto text = read_file(fmt::format("{}{}/children", tasks, task));
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (const auto child = parse_number<pid_t>(next_word(rest))) {
      found.push_back(*child);
    }
  }
  return found;
}

std::vector<pid_t> ProcessTree::scanned(pid_t parent) {
  // One walk through all of /proc serves all questions to this object.
  if (!scan_) {
    scan_.emplace();
    for (const pid_t pid : numbers_in("/proc")) {
      if (const auto stat = read_proc_stat(pid)) {
        (*scan_)[stat->parent].push_back(pid);
      }
    }
  }
  const auto found = scan_->find(parent);
  return found == scan_->end() ? std::vector<pid_t>{} : found->second;
}

}  // namespace ddprun
