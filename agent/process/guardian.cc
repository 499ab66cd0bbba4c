#include "agent/process/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "agent/process/descriptor_limit.h"
#include "agent/process/orderly_close.h"
#include "agent/process/orphans.h"
#include "agent/process/signals.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/signal_name.h"

// The ends of the program's code, from the linker (ld(1), end(3)).
extern "C" const char __executable_start;  // NOLINT(bugprone-reserved-identifier): ld's name
extern "C" const char etext;

namespace ddprun {
namespace {

/// After this the guardian gives up on processes that SIGKILL does not end, and returns.
constexpr std::chrono::milliseconds kCleanUpMax{1'000};
/// For peers to close their ends, which they do as soon as they read that this one ended.
constexpr std::chrono::milliseconds kCloseMax{200};
constexpr int kSignalledBase = 128;
constexpr int kCannotStart = 1;

/// The agent's end of the watch. A global, since a process has one guardian, like one parent.
int the_guardian_fd = -1;

/// What we treat by itself. (A fault of the guardian is no signal that waits: the kernel ends the
/// process by it at once, blocked or not. So a SIGSEGV that comes here was sent by somebody.)
constexpr std::array kNotForwarded = {SIGCHLD, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE};

bool is_forwarded(int number) {
  for (const int other : kNotForwarded) {
    if (number == other) {
      return false;
    }
  }
  return true;
}

void restore_default(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
}

/// What the guardian passes on to the agent, out of what it waits for.
sigset_t forwarded_of(const sigset_t& blocked) {
  sigset_t forwarded = blocked;
  for (const int number : kNotForwarded) {
    ::sigdelset(&forwarded, number);
  }
  return forwarded;
}

bool is_ignored(int number) {
  struct sigaction action {};
  return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Ctrl-Z: the shell gets its prompt back and may say bg or fg; the job itself runs on, since a
/// silent agent would be taken for a lost node. SIGCONT continues us here.
void stop_until_continued() {
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  restore_default(SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
}

/// Reaps all dead children but the agent, which it only looks at. True when the agent is dead.
bool reap_all_but(pid_t agent) {
  while (true) {
    siginfo_t info{};
    if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
      return false;
    }
    if (info.si_pid == agent) {
      return true;
    }
    ::waitid(P_PID, static_cast<id_t>(info.si_pid), &info, WEXITED | WNOHANG);
  }
}

siginfo_t reap_agent(pid_t agent) {
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(agent), &info, WEXITED) != 0 && errno == EINTR) {
  }
  return info;
}

/// Until the agent has ended; it stays unreaped, so that no signal can reach another by its pid.
void watch(pid_t agent, const sigset_t& blocked) {
  // SIGCHLD is among the blocked signals: a death between this look and sigwaitinfo stays pending.
  while (!reap_all_but(agent)) {
    siginfo_t info{};
    const int number = ::sigwaitinfo(&blocked, &info);
    if (number == SIGTSTP) {
      stop_until_continued();
    } else if (number > 0 && is_forwarded(number)) {
      ::kill(agent, number);
    }
  }
}

/// fork(2), but both processes have one table of descriptors: what the agent has open when it is
/// killed stays open until the guardian ends, and what the agent closes is closed.
pid_t fork_sharing_descriptors() {
  return static_cast<pid_t>(
      ::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

/// In the guardian. The agent leaves the group that Ctrl-C and kill(-group) reach, and is sent what
/// has reached this process until then. A signal of the group may wait in both processes: it is
/// blocked in both, so the kernel takes the two for one. A signal of either alone waits there once.
void part_from(pid_t agent, const sigset_t& blocked) {
  ::setpgid(agent, agent);
  const sigset_t forwarded = forwarded_of(blocked);
  const timespec now{};
  for (int number = 0; (number = ::sigtimedwait(&forwarded, nullptr, &now)) > 0;) {
    ::kill(agent, number);
  }
}

/// In the agent: until the guardian has parted from it and closed its end of the pipe, or is dead.
/// The two share that end, so it does not close by the guardian's death.
void wait_until_parted(const Fd& parted, const Fd& guardian) {
  std::array<pollfd, 2> either{{{parted.get(), POLLIN, 0}, {guardian.get(), POLLIN, 0}}};
  while (::poll(either.data(), either.size(), -1) == -1 && errno == EINTR) {
  }
}

/// Two free places in the table for the clean-up, which reads /proc: the agent may have filled it.
class SpareDescriptors {
 public:
  void give_back() {
    (void)raise_descriptor_limit();  // as the agent has done for itself
    first_.reset();
    second_.reset();
  }

 private:
  static Fd spare() { return Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
  Fd first_ = spare();
  Fd second_ = spare();
};

/// In the guardian: gives back the pages of code that the start has read, half of its memory. It
/// waits from now on, and the kernel maps again the few pages that it still runs.
void give_back_code() {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto into_page = [page](const char* at) {
    return reinterpret_cast<std::uintptr_t>(at) % page;
  };
  const char* const begin = &__executable_start - into_page(&__executable_start);
  const char* const end = &etext - into_page(&etext);
  // A kernel that refuses costs nothing but this memory.
  (void)::madvise(const_cast<char*>(begin), static_cast<std::size_t>(end - begin), MADV_DONTNEED);
}

/// The guardian's life; returns the exit code for main.
int guard(pid_t agent, const sigset_t& blocked, SpareDescriptors& spare) {
  ::prctl(PR_SET_NAME, kGuardianName);
  give_back_code();
  watch(agent, blocked);
  // This frees the agent's pid: from here on no signal may be sent to it.
  const siginfo_t end = reap_agent(agent);
  spare.give_back();
  const auto cleaned = kill_descendants({}, kCleanUpMax);
  if (!cleaned) {
    std::fprintf(stderr, "ddprun: %s\n", cleaned.error().sentence().c_str());
  }
  // A shell or scheduler reads this exit code as the job's, so an agent that exited decides it.
  if (end.si_code == CLD_EXITED) {
    return end.si_status;
  }
  std::fprintf(stderr, "ddprun: the agent (pid %d) was killed by %s", agent,
               signal_name(end.si_status).c_str());
  if (cleaned) {
    std::fprintf(stderr, "; processes that it left behind and that were stopped: %d", *cleaned);
  }
  std::fprintf(stderr, "\n");
  end_connections_in_order(kCloseMax);
  return kSignalledBase + end.si_status;
}

/// In the child, all signals blocked, once the guardian has parted from it.
void become_agent(const sigset_t& original) {
  (void)become_subreaper();
  // A background group that writes to a terminal with `stty tostop`, or reads it, is stopped.
  std::signal(SIGTTOU, SIG_IGN);
  std::signal(SIGTTIN, SIG_IGN);
  // A Ctrl-Z from before the parting is the guardian's to obey: ignoring drops what waits here.
  std::signal(SIGTSTP, std::signal(SIGTSTP, SIG_IGN));
  // A script's `ddprun ... &` has SIGINT ignored, which would drop one that waits here.
  restore_default(SIGINT);
  ::pthread_sigmask(SIG_SETMASK, &original, nullptr);
}

int cannot_start(const char* what) {
  const int why = errno;
  std::fprintf(stderr, "ddprun: cannot start the agent process: %s: %s\n",
               why == EMFILE   ? "raise ulimit -n"
               : why == EAGAIN ? "raise ulimit -u, or the pids limit of the cgroup"
                               : what,
               std::strerror(why));
  return kCannotStart;
}

}  // namespace

int run_under_guardian(const std::function<int()>& agent_main) {
  sigset_t blocked;
  sigset_t original;
  ::sigfillset(&blocked);
  ::pthread_sigmask(SIG_SETMASK, &blocked, &original);
  // A blocked signal reaches sigwaitinfo even where it is ignored; but nohup, and a shell without
  // job control, meant what they said. SIGINT is another matter: a script's `ddprun ... &` has it
  // ignored too, and kill -INT must work there, as it does with torchrun.
  for (const int number : {SIGHUP, SIGTSTP}) {
    if (is_ignored(number)) {
      ::sigdelset(&blocked, number);
    }
  }
  // Opened before the fork, so that it can never mean another process than this one.
  Fd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  int ends[2];
  if (!self || !become_subreaper() || ::pipe2(ends, O_CLOEXEC) != 0) {
    return cannot_start("Linux 5.9 or newer is needed");
  }
  Fd parted_read(ends[0]);
  Fd parted_write(ends[1]);
  SpareDescriptors spare;
  // Both processes inherit the buffers of stdio: what they still hold would be written twice.
  std::fflush(nullptr);
  const pid_t agent = fork_sharing_descriptors();
  if (agent < 0) {
    return cannot_start("fork");
  }
  if (agent == 0) {
    wait_until_parted(parted_read, self);
    parted_read.reset();
    the_guardian_fd = self.get();
    become_agent(original);
    std::exit(agent_main());  // without destructors: the descriptors above are the guardian's, too
  }
  part_from(agent, blocked);
  parted_write.reset();
  (void)parted_read.release();  // the agent's
  (void)self.release();         // the agent's
  return guard(agent, blocked, spare);
}

int guardian_fd() {
  return the_guardian_fd;
}

}  // namespace ddprun
