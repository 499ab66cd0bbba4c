#include "agent/process/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <charconv>

#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

std::optional<std::string> read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    return std::nullopt;
  }
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(file.get(), buffer, sizeof(buffer));
    if (got <= 0) {
      return got == 0 ? std::optional(text) : std::nullopt;
    }
    text.append(buffer, static_cast<std::size_t>(got));
  }
}

/// Cuts the next word off `text`; empty at its end.
std::string_view next_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \n"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \n"));
  text.remove_prefix(word.size());
  return word;
}

std::optional<pid_t> to_number(std::string_view word) {
  pid_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return number;
}

/// The entries of a directory whose names are numbers.
std::vector<pid_t> numbers_in(const std::string& path) {
  std::vector<pid_t> numbers;
  DIR* const directory = ::opendir(path.c_str());
  if (directory == nullptr) {
    return numbers;
  }
  while (const dirent* entry = ::readdir(directory)) {
    if (const auto number = to_number(entry->d_name)) {
      numbers.push_back(*number);
    }
  }
  ::closedir(directory);
  return numbers;
}

}  // namespace

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  ProcStat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  std::string_view rest = text.substr(close + 1);
  const std::string_view state = next_word(rest);
  const auto parent = to_number(next_word(rest));
  const auto group = to_number(next_word(rest));
  const auto session = to_number(next_word(rest));
  if (state.size() != 1 || !parent || !group || !session) {
    return std::nullopt;
  }
  stat.state = state.front();
  stat.parent = *parent;
  stat.group = *group;
  stat.session = *session;
  next_word(rest);                 // the terminal
  next_word(rest);                 // its foreground group
  constexpr pid_t kExiting = 0x4;  // PF_EXITING of the kernel's include/linux/sched.h
  stat.exiting = (to_number(next_word(rest)).value_or(0) & kExiting) != 0;
  return stat;
}

std::optional<ProcStat> read_proc_stat(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  return text ? parse_proc_stat(*text) : std::nullopt;
}

bool descends_from(pid_t pid, pid_t ancestor) {
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
  return ::access("/proc/thread-self/children", R_OK) == 0 ? Source::kernel_lists : Source::scan;
}

std::vector<pid_t> ProcessTree::children(pid_t parent) {
  return source_ == Source::kernel_lists ? listed(parent) : scanned(parent);
}

std::vector<pid_t> ProcessTree::listed(pid_t parent) const {
  const std::string tasks = "/proc/" + std::to_string(parent) + "/task/";
  std::vector<pid_t> found;
  for (const pid_t task : numbers_in(tasks)) {
    const auto text = read_file(tasks + std::to_string(task) + "/children");
    std::string_view rest = text ? std::string_view(*text) : std::string_view();
    while (const auto child = to_number(next_word(rest))) {
      found.push_back(*child);
    }
  }
  return found;
}

std::vector<pid_t> ProcessTree::scanned(pid_t parent) {
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
