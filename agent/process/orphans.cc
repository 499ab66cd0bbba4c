#include "agent/process/orphans.h"

#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <set>
#include <string>
#include <vector>

#include "agent/process/process_tree.h"

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

/// A death wakes us by SIGCHLD; a live process that becomes ours does not: so look this often.
constexpr std::chrono::milliseconds kLookAgain{5};
/// Named in the Error; of a thousand survivors the first few tell enough.
constexpr std::size_t kSurvivorsNamedMax = 8;

/// SIGCHLD stays pending while this lives, so that one that comes between a look and the wait for
/// the next is not lost.
class HeldSigchld {
 public:
  HeldSigchld() {
    ::sigemptyset(&sigchld_);
    ::sigaddset(&sigchld_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &sigchld_, &before_);
  }
  ~HeldSigchld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSigchld(const HeldSigchld&) = delete;
  HeldSigchld& operator=(const HeldSigchld&) = delete;

  void wait(Clock::duration at_most) const {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at_most).count();
    const timespec time{ns / 1'000'000'000, ns % 1'000'000'000};
    ::sigtimedwait(&sigchld_, nullptr, &time);
  }

 private:
  sigset_t sigchld_{};
  sigset_t before_{};
};

enum class Reaped : std::uint8_t { no, was_killed, had_ended };

/// Reaps one child if it is dead, without waiting. Children that had ended by themselves are not
/// counted as killed.
Reaped reap(pid_t pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG) != 0) {
    return Reaped::had_ended;  // ECHILD: gone without us
  }
  if (info.si_pid == 0) {
    return Reaped::no;
  }
  const bool killed = info.si_code == CLD_KILLED && info.si_status == SIGKILL;
  return killed ? Reaped::was_killed : Reaped::had_ended;
}

/// One call that a whole group cannot outrun by forking. Only for groups that hold nobody else: a
/// session other than ours was made below us, so all that is in it is ours to kill.
void kill_group_of(pid_t pid, const std::set<pid_t>& spared_sessions,
                   std::set<pid_t>& groups_done) {
  const auto stat = read_proc_stat(pid);
  if (stat && stat->group > 1 && !spared_sessions.contains(stat->session) &&
      groups_done.insert(stat->group).second) {
    ::killpg(stat->group, SIGKILL);
  }
}

/// From the top down, and each before its children are read: a process with SIGKILL pending can
/// fork no more, so the list read afterwards is complete, and no parent restarts a child that died.
/// SIGKILL stops all threads of a process at once; SIGSTOP first would only be slower.
void kill_tree(pid_t top, const std::set<pid_t>& spared_sessions, ProcessTree& tree,
               std::set<pid_t>& groups_done) {
  std::vector<pid_t> line{top};
  for (std::size_t next = 0; next < line.size(); ++next) {
    const pid_t pid = line[next];
    ::kill(pid, SIGKILL);
    kill_group_of(pid, spared_sessions, groups_done);
    const std::vector<pid_t> children = tree.children(pid);
    line.insert(line.end(), children.begin(), children.end());
  }
}

/// A session may span a kept process, its children and an orphan of theirs: only pids are safe in
/// it. Our own session also holds the processes that started this one.
std::set<pid_t> sessions_of(std::span<const pid_t> keep, ProcessTree& tree) {
  std::set<pid_t> sessions{::getsid(0)};
  std::vector<pid_t> line(keep.begin(), keep.end());
  for (std::size_t next = 0; next < line.size(); ++next) {
    if (const auto stat = read_proc_stat(line[next])) {
      sessions.insert(stat->session);
    }
    const std::vector<pid_t> children = tree.children(line[next]);
    line.insert(line.end(), children.begin(), children.end());
  }
  return sessions;
}

Error survivors_error(const std::vector<pid_t>& survivors) {
  std::string list;
  for (std::size_t i = 0; i < std::min(survivors.size(), kSurvivorsNamedMax); ++i) {
    const auto stat = read_proc_stat(survivors[i]);
    list += (list.empty() ? "" : ", ") + std::to_string(survivors[i]);
    if (stat) {
      list += " (" + stat->name + ", state " + stat->state + ")";
    }
  }
  if (survivors.size() > kSurvivorsNamedMax) {
    list += fmt::format(" and {} more", survivors.size() - kSurvivorsNamedMax);
  }
  return Error{"SIGKILL did not end it in time", "process " + list,
               "in state D it waits inside the kernel for a device or a network file system, and "
               "ends when that answers; under another user's name, kill it as that user"};
}

}  // namespace

Result<void> become_subreaper() {
  // A parent may have left SIGCHLD ignored for us: then nobody learns how a child ended.
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  if (::sigaction(SIGCHLD, &by_default, nullptr) != 0 ||
      ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
    return errno_error(errno, "cannot become the parent of orphaned processes");
  }
  return {};
}

Result<int> kill_descendants(std::span<const pid_t> keep, std::chrono::milliseconds bound) {
  const auto deadline = Clock::now() + bound;
  const auto source = ProcessTree::best_source();
  const HeldSigchld sigchld;
  int killed = 0;
  while (true) {
    // A new object per round: with Source::scan it reads /proc once and answers from that.
    ProcessTree tree(source);
    const std::set<pid_t> spared_sessions = sessions_of(keep, tree);
    std::set<pid_t> groups_done;
    std::vector<pid_t> alive;
    bool found_any = false;
    for (const pid_t child : tree.children(::getpid())) {
      if (std::find(keep.begin(), keep.end(), child) != keep.end()) {
        continue;
      }
      found_any = true;
      const Reaped reaped = reap(child);
      if (reaped == Reaped::no) {
        kill_tree(child, spared_sessions, tree, groups_done);
        alive.push_back(child);
      }
      killed += reaped == Reaped::was_killed ? 1 : 0;
    }
    // All that is below a dying process becomes our child before that one can be reaped: so none
    // is left anywhere when a look finds no child of our own, dead or alive.
    if (!found_any) {
      return killed;
    }
    // All children found are reaped, but theirs may be ours by now: so it looks again at once.
    if (alive.empty()) {
      continue;
    }
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) {
      return survivors_error(alive);
    }
    sigchld.wait(std::min<Clock::duration>(left, kLookAgain));
  }
}

}  // namespace ddprun
