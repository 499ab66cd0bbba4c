#include "agent/process/guardian.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <fstream>
#include <vector>

#include "agent/process/descriptor_limit.h"
#include "agent/process/orphans.h"
#include "agent/process/process_tree.h"
#include "agent/process/signals.h"
#include "agent/process/spawn.h"
#include "rendezvous/base/signal_name.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/agent/forked.h"

namespace ddprun {
namespace {

using test::Forked;
using test::say;
using Kind = ExitStatus::Kind;
constexpr std::chrono::milliseconds kOneSecond{1000};

/// A worker whose children are hard to find: in a session of their own, twice forked, deaf. Each
/// says a line when it runs; 5 lines in all.
constexpr char kWorkerWithFamily[] = R"(
  setsid sh -c 'echo own session; exec sleep 1000' &
  ( ( sh -c 'echo twice forked; exec sleep 1000' ) & ) &
  setsid sh -c 'trap "" TERM INT HUP; ( setsid sh -c "echo both; sleep 1000" & ); echo deaf;
                while :; do sleep 1000; done' &
  echo worker
  exec sleep 1000
)";
constexpr int kFamilyLines = 5;

void start_worker(const std::string& script) {
  if (!launch_session({"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, "", ""})) {
    ::_exit(98);
  }
}

/// An agent that does what every agent must: its workers run until the guardian is gone.
int agent_with_family() {
  say("agent " + std::to_string(::getpid()));
  start_worker(kWorkerWithFamily);
  pollfd guardian{guardian_fd(), POLLIN, 0};
  ::poll(&guardian, 1, -1);
  return kill_descendants({}, kOneSecond) ? 0 : 1;
}

pid_t agent_pid(const std::string& lines) {
  const auto at = lines.find("agent ");
  return at == std::string::npos ? -1 : std::stoi(lines.substr(at + 6));
}

void stderr_to(const std::string& path) {
  ::dup2(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), STDERR_FILENO);
}

TEST_CASE("the agent's exit code is the guardian's", "[agent]") {
  for (const int code : {0, 1, 7, 255}) {
    Forked guardian([&] { return run_under_guardian([&] { return code; }); });
    CHECK(guardian.end() == ExitStatus{Kind::exited, code});
  }
}

TEST_CASE("the agent is another process, in a group of its own, and knows its guardian",
          "[agent]") {
  Forked guardian([] {
    const pid_t user_sees = ::getpid();
    return run_under_guardian([&] {
      pollfd fd{guardian_fd(), POLLIN, 0};
      const bool right = ::getppid() == user_sees && ::getpgid(0) == ::getpid() &&
                         ::getsid(0) == ::getsid(user_sees) && ::poll(&fd, 1, 0) == 0;
      sigset_t mask;
      ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
      return right && ::sigismember(&mask, SIGTERM) == 0 ? 0 : 1;
    });
  });
  CHECK(guardian.end() == ExitStatus{Kind::exited, 0});
  CHECK(guardian_fd() == -1);
}

TEST_CASE("a killed agent leaves nothing behind within a second, in whatever session", "[agent]") {
  const test::TempDir dir;
  const std::string errors = dir.file("stderr");
  Forked guardian([&] {
    stderr_to(errors);
    return run_under_guardian(agent_with_family);
  });
  const std::string lines = guardian.lines(1 + kFamilyLines);
  const pid_t agent = agent_pid(lines);
  CAPTURE(lines);
  REQUIRE(agent > 0);
  ::kill(agent, SIGKILL);
  CHECK(guardian.all_gone_within(kOneSecond));
  CHECK(guardian.end() == ExitStatus{Kind::exited, 128 + SIGKILL});
  std::string sentence;
  std::getline(std::ifstream(errors), sentence);
  CHECK_THAT(sentence, Catch::StartsWith("ddprun: the agent (pid " + std::to_string(agent) +
                                         ") was killed by SIGKILL; processes that it left"));
}

/// Starts a guardian that stops as soon as it has forked, and returns its agent, which has not run.
pid_t stop_after_fork(pid_t guardian) {
  int status = 0;
  unsigned long agent = 0;  // allowed: the type that ptrace writes
  if (::waitpid(guardian, &status, 0) != guardian || !WIFSTOPPED(status) ||
      ::ptrace(PTRACE_SETOPTIONS, guardian, nullptr, PTRACE_O_TRACEFORK) != 0 ||
      ::ptrace(PTRACE_CONT, guardian, nullptr, nullptr) != 0 ||
      ::waitpid(guardian, &status, 0) != guardian || status >> 16 != PTRACE_EVENT_FORK ||
      ::ptrace(PTRACE_GETEVENTMSG, guardian, nullptr, &agent) != 0) {
    return -1;
  }
  return static_cast<pid_t>(agent);
}

TEST_CASE("an agent that is killed before its first instruction ends its guardian", "[agent]") {
  Forked guardian([] {
    stderr_to("/dev/null");
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    return run_under_guardian([] { return 0; });
  });
  const pid_t agent = stop_after_fork(guardian.pid());
  REQUIRE(agent > 0);
  ::kill(agent, SIGKILL);
  int status = 0;
  do {
    REQUIRE(::waitpid(agent, &status, __WALL) == agent);
  } while (!WIFSIGNALED(status));
  REQUIRE(::ptrace(PTRACE_DETACH, guardian.pid(), nullptr, nullptr) == 0);
  REQUIRE(guardian.all_gone_within(Forked::kPatience));
  CHECK(guardian.end() == ExitStatus{Kind::exited, 128 + SIGKILL});
}

TEST_CASE("the connections of a killed agent close when all that it had started is gone",
          "[agent]") {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  socklen_t size = sizeof(here);
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  REQUIRE((::listen(listener.get(), 1) == 0 && ::getsockname(listener.get(), address, &size) == 0));
  Forked guardian([&] {
    stderr_to("/dev/null");
    return run_under_guardian([&] {
      const int connection = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (::connect(connection, address, size) != 0) {
        return 97;
      }
      return agent_with_family();
    });
  });
  const Fd connection(::accept(listener.get(), nullptr, nullptr));
  const pid_t agent = agent_pid(guardian.lines(1 + kFamilyLines));
  REQUIRE(agent > 0);
  const std::vector<pid_t> family =
      ProcessTree(ProcessTree::best_source()).children(agent);  // as subreaper it has the orphans
  REQUIRE(family.size() >= 2);
  ::kill(agent, SIGKILL);
  char none = 0;
  CHECK(::read(connection.get(), &none, 1) == 0);
  for (const pid_t one : family) {
    CAPTURE(one);
    CHECK((::kill(one, 0) == -1 && errno == ESRCH));
  }
}

TEST_CASE("the connections of a killed agent end in order, whatever it had not read", "[agent]") {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in here{};
  socklen_t size = sizeof(here);
  auto* const address = reinterpret_cast<sockaddr*>(&here);
  REQUIRE((::listen(listener.get(), 2) == 0 && ::getsockname(listener.get(), address, &size) == 0));
  Forked guardian([&] {
    stderr_to("/dev/null");
    return run_under_guardian([&] {
      const int followed = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const int given_up = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      const linger by_reset{1, 0};
      if (::connect(followed, address, size) != 0 || ::connect(given_up, address, size) != 0 ||
          ::setsockopt(given_up, SOL_SOCKET, SO_LINGER, &by_reset, sizeof by_reset) != 0) {
        return 97;
      }
      say("agent " + std::to_string(::getpid()));
      return ::pause();
    });
  });
  const Fd followed(::accept(listener.get(), nullptr, nullptr));
  const Fd given_up(::accept(listener.get(), nullptr, nullptr));
  const pid_t agent = agent_pid(guardian.lines(1));
  REQUIRE(agent > 0);
  for (const int socket : {followed.get(), given_up.get()}) {
    REQUIRE(::send(socket, "unread", 6, MSG_NOSIGNAL) == 6);
  }
  ::kill(agent, SIGKILL);
  char none = 0;
  CHECK(::recv(followed.get(), &none, 1, 0) == 0);
  CHECK((::recv(given_up.get(), &none, 1, 0) == -1 && errno == ECONNRESET));
}

TEST_CASE("a killed agent that had no descriptor left is cleaned up after, too", "[agent]") {
  Forked guardian([&] {
    stderr_to("/dev/null");
    return run_under_guardian([] {
      start_worker(kWorkerWithFamily);
      while (::dup(STDOUT_FILENO) >= 0) {
      }
      say("agent " + std::to_string(::getpid()));
      ::pause();
      return 0;
    });
  });
  const pid_t agent = agent_pid(guardian.lines(1 + kFamilyLines));
  REQUIRE(agent > 0);
  ::kill(agent, SIGKILL);
  CHECK(guardian.all_gone_within(kOneSecond));
}

TEST_CASE("the table of descriptors is as large as was asked for before it is shared", "[agent]") {
  Forked small_limit([] {
    const rlimit limit{256, 5'000};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    reserve_descriptors(100'000);
    rlimit after{};
    ::getrlimit(RLIMIT_NOFILE, &after);
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      if (word == "FDSize:" && status >> word) {
        say(word + " of " + std::to_string(after.rlim_cur));
      }
    }
    return 0;
  });
  CHECK(std::stoi(small_limit.lines(1)) >= 5'000);
  CHECK_THAT(small_limit.text(), Catch::EndsWith(" of 256\n"));
}

TEST_CASE("a killed guardian takes the agent and all below it along within a second", "[agent]") {
  Forked guardian([] { return run_under_guardian(agent_with_family); });
  guardian.lines(1 + kFamilyLines);
  ::kill(guardian.pid(), SIGKILL);
  CHECK(guardian.all_gone_within(kOneSecond));
}

TEST_CASE("an agent that returns leaves nothing behind either, and its code counts", "[agent]") {
  Forked guardian([] {
    return run_under_guardian([] {
      start_worker(std::string(kWorkerWithFamily));
      return 6;
    });
  });
  CHECK(guardian.end() == ExitStatus{Kind::exited, 6});
  CHECK(guardian.all_gone_within(kOneSecond));
}

/// Says each signal that comes, and after SIGTERM what else is pending.
int agent_that_counts() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing of a failed test stays behind
  sigset_t set;
  ::sigfillset(&set);
  ::pthread_sigmask(SIG_SETMASK, &set, nullptr);
  say("ready " + std::to_string(::getpid()));
  while (true) {
    const int number = ::sigwaitinfo(&set, nullptr);
    say(signal_name(number));
    if (number == SIGTERM) {
      const timespec none{};
      for (int extra = 0; (extra = ::sigtimedwait(&set, nullptr, &none)) > 0;) {
        say(std::string("once more ") + signal_name(extra));
      }
      return 0;
    }
  }
}

TEST_CASE("the agent gets each signal once, to whomever of the group it was sent", "[agent]") {
  Forked guardian([] {
    ::setpgid(0, 0);
    return run_under_guardian(agent_that_counts);
  });
  guardian.lines(1);
  int lines = 1;
  for (const int number : {SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGINT, SIGCONT, SIGALRM, SIGABRT,
                           SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
    ::kill(guardian.pid(), number);
    guardian.lines(++lines);
  }
  ::killpg(guardian.pid(), SIGINT);  // Ctrl-C
  guardian.lines(++lines);
  ::kill(guardian.pid(), SIGTERM);
  CHECK(guardian.end() == ExitStatus{Kind::exited, 0});
  CHECK(guardian.all_gone_within(kOneSecond));
  CHECK_THAT(guardian.text(),
             Catch::EndsWith("\nSIGUSR1\nSIGUSR2\nSIGHUP\nSIGQUIT\nSIGINT\nSIGCONT\nSIGALRM\n"
                             "SIGABRT\nSIGSEGV\nSIGBUS\nSIGFPE\nSIGILL\nSIGTRAP\nSIGSYS\n"
                             "SIGINT\nSIGTERM\n"));
}

TEST_CASE("a signal that comes while the two part is not lost", "[agent]") {
  for (int round = 0; round < 30; ++round) {
    Forked guardian([] {
      ::setpgid(0, 0);
      stderr_to("/dev/null");
      std::signal(SIGTERM, SIG_IGN);  // until run_under_guardian blocks it
      say("soon");
      return run_under_guardian([] {
        std::signal(SIGTERM, SIG_DFL);
        say("agent");
        return ::pause();
      });
    });
    guardian.lines(1 + round % 2);
    // Ignored before, forwarded after; the second of a pair is sure to be after.
    ::killpg(guardian.pid(), SIGTERM);
    guardian.lines(2);
    ::killpg(guardian.pid(), SIGTERM);
    CHECK(guardian.all_gone_within(Forked::kPatience));
  }
}

TEST_CASE("what comes before the two have parted reaches the agent once, whoever got it",
          "[agent]") {
  Forked guardian([] {
    ::setpgid(0, 0);
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);  // for the agent, until it counts
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    ::raise(SIGSTOP);
    return run_under_guardian(agent_that_counts);
  });
  const pid_t agent = stop_after_fork(guardian.pid());
  REQUIRE(agent > 0);
  ::killpg(guardian.pid(), SIGINT);
  ::kill(agent, SIGUSR1);
  ::kill(guardian.pid(), SIGUSR2);
  ::killpg(guardian.pid(), SIGTSTP);
  int status = 0;
  REQUIRE((::waitpid(agent, &status, __WALL) == agent && WIFSTOPPED(status)));
  REQUIRE(::ptrace(PTRACE_DETACH, agent, nullptr, nullptr) == 0);
  REQUIRE(::ptrace(PTRACE_DETACH, guardian.pid(), nullptr, nullptr) == 0);
  siginfo_t stop{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(guardian.pid()), &stop, WSTOPPED) == 0);
  CHECK(stop.si_status == SIGTSTP);
  guardian.lines(4);  // the agent was not stopped
  ::killpg(guardian.pid(), SIGCONT);
  guardian.lines(5);
  ::kill(guardian.pid(), SIGTERM);
  CHECK(guardian.end() == ExitStatus{Kind::exited, 0});
  CHECK(guardian.all_gone_within(kOneSecond));  // then its text is complete
  CHECK_THAT(guardian.text(), Catch::EndsWith("\nSIGINT\nSIGUSR1\nSIGUSR2\nSIGCONT\nSIGTERM\n"));
}

TEST_CASE("nohup keeps SIGHUP away, a script's background keeps SIGINT", "[agent]") {
  Forked guardian([] {
    std::signal(SIGHUP, SIG_IGN);
    std::signal(SIGINT, SIG_IGN);
    return run_under_guardian(agent_that_counts);
  });
  guardian.lines(1);
  ::kill(guardian.pid(), SIGHUP);
  ::kill(guardian.pid(), SIGINT);
  guardian.lines(2);
  ::kill(guardian.pid(), SIGTERM);
  CHECK(guardian.all_gone_within(Forked::kPatience));
  CHECK_THAT(guardian.text(), Catch::EndsWith("\nSIGINT\nSIGTERM\n"));
}

TEST_CASE("Ctrl-Z stops the guardian and not the job, fg goes on", "[agent]") {
  Forked guardian([] {
    ::setpgid(0, 0);
    return run_under_guardian(agent_that_counts);
  });
  const std::string ready = guardian.lines(1);
  const pid_t agent = std::stoi(ready.substr(ready.find(' ')));
  ::killpg(guardian.pid(), SIGTSTP);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(guardian.pid()), &info, WSTOPPED) == 0);
  CHECK(info.si_status == SIGTSTP);
  ::kill(agent, SIGUSR1);
  CHECK_THAT(guardian.lines(2), Catch::EndsWith("\nSIGUSR1\n"));
  ::killpg(guardian.pid(), SIGCONT);
  CHECK_THAT(guardian.lines(3), Catch::EndsWith("\nSIGCONT\n"));
  ::kill(guardian.pid(), SIGTERM);
  CHECK(guardian.end() == ExitStatus{Kind::exited, 0});
}

TEST_CASE("the guardian goes by a name that pkill ddprun does not find", "[agent]") {
  Forked guardian([] {
    ::prctl(PR_SET_NAME, "ddprun");
    return run_under_guardian(agent_that_counts);
  });
  const std::string ready = guardian.lines(1);
  const pid_t agent = std::stoi(ready.substr(ready.find(' ')));
  CHECK(read_proc_stat(agent)->name == "ddprun");
  // The guardian takes its name just after it let the agent go; a forwarded signal is proof.
  ::kill(guardian.pid(), SIGUSR1);
  guardian.lines(2);
  CHECK(read_proc_stat(guardian.pid())->name == "ddp-guardian");
  ::kill(guardian.pid(), SIGTERM);
  CHECK(guardian.all_gone_within(Forked::kPatience));
}

}  // namespace
}  // namespace ddprun
