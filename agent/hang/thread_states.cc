#include "agent/hang/thread_states.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>

#include "agent/process/process_tree.h"
#include "rendezvous/base/file_text.h"

namespace ddprun {
namespace {

/// Without the last line end; empty when it cannot be read: the thread is gone, or not ours.
std::string read_proc(const std::string& path) {
  std::string text = read_file(path).value_or("");
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return text;
}

std::string directory_of(pid_t pid) {
  return "/proc/" + std::to_string(pid);
}

/// The rest of the line that begins with `name` and a colon, without blanks around it.
std::string_view status_field(std::string_view status, std::string_view name) {
  const auto at = status.find("\n" + std::string(name) + ":");
  if (at == std::string_view::npos) {
    return {};
  }
  std::string_view value = status.substr(at + name.size() + 2);
  value = value.substr(0, value.find('\n'));
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  return value;
}

std::string describe(const std::string& directory, pid_t thread) {
  const std::string status = "\n" + read_proc(directory + "/status");
  std::string line = fmt::format("thread {} ({}): state {}", thread, status_field(status, "Name"),
                                 status_field(status, "State"));
  // "0" is a thread that runs, or a kernel that hides the function from this user.
  if (const std::string where = read_proc(directory + "/wchan"); !where.empty() && where != "0") {
    line += ", waits in " + where;
  }
  // proc(5): "running", or number and arguments of the system call; readable with the rights of
  // ptrace(2).
  const std::string call = read_proc(directory + "/syscall");
  if (const auto number = call.substr(0, call.find(' ')); !number.empty() && number != "running") {
    line += ", system call " + number;
  }
  line += "\n";
  // Readable by root only, as a rule; it names the driver or file system that does not answer.
  if (const std::string stack = read_proc(directory + "/stack"); !stack.empty()) {
    line += "  kernel:\n";
    for (std::size_t begin = 0; begin < stack.size();) {
      const std::size_t end = std::min(stack.find('\n', begin), stack.size());
      line += "    " + stack.substr(begin, end - begin) + "\n";
      begin = end + 1;
    }
  }
  return line;
}

}  // namespace

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> threads = numbers_in(directory_of(pid) + "/task");
  std::sort(threads.begin(), threads.end(),
            [pid](pid_t a, pid_t b) { return std::pair(a != pid, a) < std::pair(b != pid, b); });
  return threads;
}

std::string wait_channel(pid_t pid) {
  const std::string where = read_proc(directory_of(pid) + "/wchan");
  return where == "0" ? std::string() : where;
}

std::string describe_threads(pid_t pid) {
  const std::vector<pid_t> threads = threads_of(pid);
  std::string text;
  for (std::size_t i = 0; i < std::min(threads.size(), kThreadsDescribedMax); ++i) {
    text += describe(fmt::format("{}/task/{}", directory_of(pid), threads[i]), threads[i]);
  }
  if (threads.size() > kThreadsDescribedMax) {
    text += fmt::format("and {} more threads\n", threads.size() - kThreadsDescribedMax);
  }
  return text;
}

std::string executable_of(pid_t pid) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink((directory_of(pid) + "/exe").c_str(), path, sizeof path);
  return size > 0 ? std::string(path, static_cast<std::size_t>(size)) : std::string();
}

bool catches(pid_t pid, int signal) {
  const std::string status = "\n" + read_proc(directory_of(pid) + "/status");
  // proc(5): a hexadecimal mask in which bit N - 1 stands for signal N.
  const std::string mask(status_field(status, "SigCgt"));
  const std::uint64_t bits = std::strtoull(mask.c_str(), nullptr, 16);
  return signal >= 1 && signal <= 64 && ((bits >> (signal - 1)) & 1U) != 0;
}

}  // namespace ddprun
