#include "agent/process/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "rendezvous/base/check.h"
#include "rendezvous/base/open_files.h"

// Memory is shared with the child below, which runs on a stack that AddressSanitizer knows nothing
// about: its marks would stay behind in the parent's shadow.
#define DDPRUN_CHILD_SIDE __attribute__((no_sanitize("address", "undefined", "thread")))

namespace ddprun {
namespace {

enum class Step : std::uint8_t { none, session, signals, in, out, err, descriptors, execute };

/// What parent and child share: all prepared before the child exists, since the child may not
/// allocate. `failed` and `error` are the child's answer.
struct Child {
  const SpawnRequest* request;
  char* const* argv;
  char* const* environment;
  const int* descriptors;
  int descriptor_count;
  pid_t parent;
  Step failed = Step::none;
  int error = 0;
};

/// Frames of the child: a few system calls deep. Pages that it does not touch are never made.
constexpr std::size_t kChildStackBytes = 64 * 1024;
/// _exit code of a child that failed before its program ran; nobody sees it but us.
constexpr int kChildFailed = 127;
/// After the standard streams.
constexpr int kFirstPassedOn = 3;

DDPRUN_CHILD_SIDE int give_up(Child& child, Step step) {
  child.error = errno;
  child.failed = step;
  return kChildFailed;
}

/// A worker must not inherit "ignored" either: the agent ignores SIGPIPE, nohup SIGHUP. By the raw
/// call, so that no sanitizer's table, shared with the parent, is changed.
DDPRUN_CHILD_SIDE bool reset_signals() {
  struct {
    void* handler;
    unsigned long flags;
    void* restorer;
    std::uint64_t mask;
  } const by_default{};
  constexpr int kLastSignal = 64;
  for (int number = 1; number <= kLastSignal; ++number) {
    if (number == SIGKILL || number == SIGSTOP) {
      continue;
    }
    if (::syscall(SYS_rt_sigaction, number, &by_default, nullptr, sizeof(std::uint64_t)) != 0) {
      return false;
    }
  }
  const std::uint64_t nothing = 0;
  return ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &nothing, nullptr, sizeof(nothing)) == 0;
}

/// Otherwise the worker's first open() would land on 0, 1 or 2.
DDPRUN_CHILD_SIDE bool fill_standard_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1 && ::open("/dev/null", O_RDWR) != fd) {
      return false;
    }
  }
  return true;
}

constexpr int kToRead = O_RDONLY;
constexpr int kToWrite = O_WRONLY | O_CREAT | O_APPEND;

/// O_NOCTTY: the child leads a new session, so a terminal that it opens would become its
/// controlling one.
DDPRUN_CHILD_SIDE bool open_onto(const char* path, int flags, int target) {
  const int fd = ::open(path, flags | O_CLOEXEC | O_NOCTTY, 0644);
  return fd >= 0 && ::dup2(fd, target) == target;
}

/// In two steps: a descriptor to pass on may have the number that another one gets.
DDPRUN_CHILD_SIDE bool pass_on(const int* descriptors, int count) {
  int aside[SpawnRequest::kDescriptorsMax];
  for (int i = 0; i < count; ++i) {
    aside[i] = ::fcntl(descriptors[i], F_DUPFD_CLOEXEC, kFirstPassedOn + count);
    if (aside[i] < 0) {
      return false;
    }
  }
  for (int i = 0; i < count; ++i) {
    if (::dup2(aside[i], kFirstPassedOn + i) < 0) {
      return false;
    }
  }
  return true;
}

DDPRUN_CHILD_SIDE bool limit_descriptors(std::uint64_t soft) {
  rlimit64 limit{};
  if (soft == 0 || ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit) != 0) {
    return soft == 0;
  }
  limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
  return ::syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr) == 0;
}

DDPRUN_CHILD_SIDE int child_main(void* argument) {
  Child& child = *static_cast<Child*>(argument);
  const SpawnRequest& request = *child.request;
  // A session of its own: one signal to its group reaches what it forks, and Ctrl-C of the user's
  // terminal does not reach it.
  if (::setsid() == -1 || ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) {
    return give_up(child, Step::session);
  }
  // The parent may have died before the line above took effect.
  if (::getppid() != child.parent) {
    return kChildFailed;
  }
  if (!fill_standard_streams()) {
    return give_up(child, Step::descriptors);
  }
  if (!request.stdin_path.empty() &&
      !open_onto(request.stdin_path.c_str(), kToRead, STDIN_FILENO)) {
    return give_up(child, Step::in);
  }
  if (!request.stdout_path.empty() &&
      !open_onto(request.stdout_path.c_str(), kToWrite, STDOUT_FILENO)) {
    return give_up(child, Step::out);
  }
  if (!request.stderr_path.empty()) {
    const bool shared = request.stderr_path == request.stdout_path;
    const bool opened = shared ? ::dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO
                               : open_onto(request.stderr_path.c_str(), kToWrite, STDERR_FILENO);
    if (!opened) {
      return give_up(child, Step::err);
    }
  }
  // close_range comes after pass_on: it also closes what a library opened without O_CLOEXEC.
  if (!pass_on(child.descriptors, child.descriptor_count) ||
      ::syscall(SYS_close_range, kFirstPassedOn + child.descriptor_count, ~0U, 0U) != 0 ||
      !limit_descriptors(request.descriptor_limit)) {
    return give_up(child, Step::descriptors);
  }
  // Last, for with this a signal may end the child.
  if (!reset_signals()) {
    return give_up(child, Step::signals);
  }
  ::execve(request.path.c_str(), child.argv, child.environment);
  return give_up(child, Step::execute);
}

/// execve(2) reports a missing interpreter as ENOENT, as it does a missing program; stat(2)
/// separates the two.
Error execute_error(const std::string& path, int error) {
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (there && S_ISDIR(info.st_mode)) {
    return Error{"this is a directory, not a program", path, "name the program to run"};
  }
  switch (error) {
    case ENOENT:
      if (there) {
        return Error{"its interpreter does not exist", path,
                     "look at its first line (#!...), or for a program at the loader it was built "
                     "for (file PROGRAM)"};
      }
      return Error{"there is no such program", path, "check the name"};
    case EACCES:
      return Error{"permission to execute it is denied", path,
                   "make it executable (chmod +x), and look at the permissions of the directories "
                   "above it and at a noexec mount"};
    case ENOEXEC:
      return Error{"this is neither a program for this machine nor a script with a #! line", path,
                   "give its interpreter as the program"};
    case E2BIG:
      return Error{"its arguments and environment are larger than the system allows", path,
                   "pass less, or raise the stack limit (ulimit -s)"};
    case ETXTBSY:
      return Error{"the program is being written just now", path, "start again when it is done"};
    default:
      return errno_error(error, "the program cannot be executed", path);
  }
}

Error child_error(const SpawnRequest& request, const Child& child) {
  switch (child.failed) {
    case Step::in:
      return errno_error(child.error, "cannot read what is to be the stdin", request.stdin_path);
    case Step::out:
      return errno_error(child.error, "cannot write the worker's stdout", request.stdout_path,
                         open_files_todo(child.error, "check the log directory"));
    case Step::err:
      return errno_error(child.error, "cannot write the worker's stderr", request.stderr_path,
                         open_files_todo(child.error, "check the log directory"));
    case Step::descriptors:
      if (child.error == EMFILE || child.error == EINVAL) {  // EINVAL: F_DUPFD beyond the limit
        return Error{"a worker is allowed too few open files", request.path,
                     open_files_todo(EMFILE)};
      }
      return errno_error(child.error, "cannot prepare the worker's descriptors", request.path,
                         "Linux 5.9 or newer is needed");
    case Step::execute:
      return execute_error(request.path, child.error);
    default:
      return errno_error(child.error, "cannot prepare the worker's session", request.path);
  }
}

Error clone_error(int error, const std::string& path) {
  if (error == EAGAIN) {
    return Error{"the system allows no further process", path,
                 "raise ulimit -u, or the pids limit of the cgroup"};
  }
  if (error == EINVAL) {
    return Error{"this kernel cannot start a process with a pidfd", path,
                 "Linux 5.9 or newer is needed"};
  }
  return errno_error(error, "cannot start a process", path, open_files_todo(error));
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    pointers.push_back(const_cast<char*>(text.c_str()));  // NOLINT: execve's old signature
  }
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Result<LaunchedProcess> launch_session(const SpawnRequest& request) {
  const std::vector<char*> argv = pointers_to(request.argv);
  const std::vector<char*> environment = pointers_to(request.environment);
  DDP_CHECK(request.descriptors.size() <= SpawnRequest::kDescriptorsMax, "few are passed on");
  Child child{&request,
              argv.data(),
              environment.data(),
              request.descriptors.data(),
              static_cast<int>(request.descriptors.size()),
              ::getpid()};
  const auto stack = std::make_unique_for_overwrite<std::byte[]>(kChildStackBytes);

  // CLONE_VM | CLONE_VFORK, as posix_spawn does it: nothing is copied, however large the agent is,
  // and we sleep until the child has executed its program or ended. Its answer is in `child` then;
  // no pipe is needed. All signals wait meanwhile: a handler of ours must not run in the child.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  int pidfd = -1;
  const pid_t pid = ::clone(child_main, stack.get() + kChildStackBytes,
                            CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &child, &pidfd);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);

  if (pid < 0) {
    return clone_error(error, request.path);
  }
  LaunchedProcess launched{pid, Fd(pidfd)};
  // A child that failed before execve is a zombie now; reaped here, it leaves nothing to the
  // caller.
  if (child.failed != Step::none) {
    siginfo_t info{};
    while (::waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED) != 0 && errno == EINTR) {
    }
    return child_error(request, child);
  }
  return launched;
}

}  // namespace ddprun
