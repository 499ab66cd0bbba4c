#include "tests/support/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "tests/support/bin_dir.h"
#include "tests/support/processes.h"

namespace ddprun::test {
namespace {

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> entries;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!changes.contains(text.substr(0, text.find('=')))) {
      entries.push_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    if (!value.empty()) {
      entries.push_back(name + "=" + value);
    }
  }
  return entries;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void give_up(const char* what, const char* which) {
  std::fprintf(stderr, "%s %s: %s\n", what, which, std::strerror(errno));
  ::_exit(127);
}

void open_as(int target, const char* path, int flags) {
  const int fd = ::open(path, flags | O_CLOEXEC, 0644);
  if (fd < 0 || ::dup2(fd, target) < 0) {
    give_up("cannot open", path);
  }
}

void enter_namespaces(const ChildRequest& request) {
  if (!request.network_namespace.empty()) {
    const std::string path = "/run/netns/" + request.network_namespace;
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ::setns(fd, CLONE_NEWNET) != 0) {
      give_up("cannot enter", path.c_str());
    }
  }
  if (!request.host_name.empty()) {
    const std::string& name = request.host_name;
    if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname(name.data(), name.size()) != 0) {
      give_up("cannot take the host name", name.c_str());
    }
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    return name;
  }
  const char* const path = std::getenv("PATH");
  std::istringstream folders(bin_dir() + ":" + (path == nullptr ? "" : path));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0 && !std::filesystem::is_directory(candidate)) {
      return candidate;
    }
  }
  return name;
}

ChildProcess::ChildProcess(const ChildRequest& request) : command_(joined(request.argv)) {
  // All memory is taken before the fork: the child only makes system calls.
  const std::string program = find_program(request.argv.at(0));
  std::vector<std::string> words = request.argv;
  std::vector<std::string> entries = merged_environment(request.environment);
  const std::vector<char*> argv = pointers_to(words);
  const std::vector<char*> envp = pointers_to(entries);
  const std::string out = out_path();
  const std::string err = err_path();
  const std::string in = request.stdin_path.empty() ? "/dev/null" : request.stdin_path;

  pid_ = ::fork();
  if (pid_ < 0) {
    throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
  }
  if (pid_ == 0) {
    open_as(STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_APPEND);
    open_as(STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_APPEND);
    open_as(STDIN_FILENO, in.c_str(), O_RDONLY);
    if (!request.directory.empty() && ::chdir(request.directory.c_str()) != 0) {
      give_up("cannot change to", request.directory.c_str());
    }
    enter_namespaces(request);
    ::execve(program.c_str(), argv.data(), envp.data());
    give_up("cannot execute", program.c_str());
  }
  // By number: the header of glibc 2.36 declares pidfd_open for C alone.
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
}

ChildProcess::~ChildProcess() {
  if (running()) {
    // From the root down: an agent that outlived its workers would start new ones.
    std::vector<pid_t> all = descendants_of(pid_);
    signal(SIGKILL);
    for (const pid_t pid : all) {
      ::kill(pid, SIGKILL);
    }
    wait();
  }
}

std::optional<Ended> ChildProcess::wait(std::chrono::milliseconds timeout) {
  if (ended_) {
    return ended_;
  }
  pollfd end{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  int ready = 0;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    ready = ::poll(&end, 1, static_cast<int>(std::max<long>(left.count(), 0)));
  } while (ready < 0 && errno == EINTR);
  siginfo_t info{};
  if (ready != 1 || ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0) {
    return std::nullopt;
  }
  ended_ = info.si_code == CLD_EXITED ? Ended{info.si_status, std::nullopt}
                                      : Ended{std::nullopt, info.si_status};
  return ended_;
}

bool ChildProcess::running() {
  return !wait(std::chrono::milliseconds(0));
}

void ChildProcess::signal(int number) {
  if (!ended_) {
    ::kill(pid_, number);
  }
}

int ChildProcess::exit_code(std::chrono::milliseconds timeout) {
  const auto ended = wait(timeout);
  if (!ended) {
    return kStillRuns;
  }
  return ended->exit_code ? *ended->exit_code : -*ended->signal;
}

bool ChildProcess::wait_for(const std::string& path, const std::string& text, int times,
                            std::chrono::milliseconds timeout) {
  const auto there = [&] { return count_of(read_file(path), text) >= times; };
  // The end is asked for before the look: what it wrote last is in the file by then.
  bool over = false;
  return wait_until(
             [&] {
               over = !running();
               return there() || over;
             },
             timeout) &&
         there();
}

bool ChildProcess::wait_for_out(const std::string& text, int times,
                                std::chrono::milliseconds timeout) {
  return wait_for(out_path(), text, times, timeout);
}

bool ChildProcess::wait_for_err(const std::string& text, int times,
                                std::chrono::milliseconds timeout) {
  return wait_for(err_path(), text, times, timeout);
}

std::string ChildProcess::report() const {
  return "$ " + command_ + "\n--- stdout\n" + out() + "--- stderr\n" + err() + "---\n";
}

Finished run(const ChildRequest& request, std::chrono::milliseconds timeout) {
  ChildProcess child(request);
  const int code = child.exit_code(timeout);
  return {code, child.out(), child.err()};
}

}  // namespace ddprun::test
