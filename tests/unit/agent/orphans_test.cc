#include "agent/process/orphans.h"

#include <sched.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>

#include "agent/process/spawn.h"
#include "tests/support/control_group.h"
#include "tests/support/event_wait.h"
#include "tests/support/needs.h"
#include "tests/unit/agent/forked.h"

namespace ddprun {
namespace {

using test::Forked;
using test::say;
using Kind = ExitStatus::Kind;
constexpr std::chrono::seconds kBound{1};

pid_t start(const std::string& script) {
  const auto started =
      launch_session({"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin"}, "", ""});
  return started ? started->pid : -1;
}

/// Until its children have said so many lines.
void await_lines(int fd, int lines) {
  char byte = 0;
  while (lines > 0 && ::read(fd, &byte, 1) == 1) {
    lines -= byte == '\n' ? 1 : 0;
  }
}

struct Pipe {
  Pipe() {
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      ::_exit(97);
    }
  }
  std::array<int, 2> ends{};
};

bool has_children() {
  return ::waitpid(-1, nullptr, WNOHANG) != -1;
}

TEST_CASE("every descendant is killed and reaped, whatever it did to hide", "[agent]") {
  Forked agent([] {
    const Pipe ready;
    const int out = ::dup(STDOUT_FILENO);
    ::dup2(ready.ends[1], STDOUT_FILENO);
    if (!become_subreaper()) {
      return 1;
    }
    start(R"(trap "" TERM
      setsid sh -c 'echo 1; exec sleep 1000' &
      ( ( setsid sh -c 'echo 2; exec sleep 1000' ) & ) &
      sh -c 'kill -STOP $$' &
      echo 3; while :; do sleep 1000; done)");
    start("echo 4; (sleep 1000; true) & exit 0");
    await_lines(ready.ends[0], 4);
    const auto killed = kill_descendants({}, kBound);
    ::dup2(out, STDOUT_FILENO);
    // At least the first shell, the two hidden sleeps and the stopped shell; what the shells were
    // about to start comes on top.
    say(killed ? std::to_string(*killed) : killed.error().sentence());
    return killed && *killed >= 4 && !has_children() ? 0 : 1;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CAPTURE(agent.text());
  CHECK(agent.end() == ExitStatus{Kind::exited, 0});
}

TEST_CASE("without descendants there is nothing to kill", "[agent]") {
  const auto killed = kill_descendants({}, kBound);
  REQUIRE(killed.has_value());
  CHECK(*killed == 0);
}

TEST_CASE("the kept are spared with all below them, and never reaped", "[agent]") {
  Forked agent([] {
    const Pipe ready;
    ::dup2(ready.ends[1], STDOUT_FILENO);
    if (!become_subreaper()) {
      return 1;
    }
    const pid_t kept = start("sh -c 'echo $$; exec sleep 1000' & echo; wait");
    const pid_t kept_dead = start("exit 44");
    start("echo; (setsid sleep 1000 &) ; exec sleep 1000");
    // Of the kept one's group, but not below it any more: an orphan like others.
    char child[32] = {};
    std::size_t length = 0;
    for (int lines = 0; lines < 3;) {
      lines += ::read(ready.ends[0], child + length, 1) == 1 && child[length] == '\n' ? 1 : 0;
      length += child[length] == '\n' ? 0 : 1;
    }
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(kept_dead), &info, WEXITED | WNOWAIT);
    const std::array keep{kept, kept_dead};
    const auto killed = kill_descendants(keep, kBound);
    if (!killed || *killed < 1 || ::kill(std::atoi(child), 0) != 0 || ::kill(kept, 0) != 0) {
      return 2;
    }
    int status = 0;
    if (::waitpid(kept_dead, &status, WNOHANG) != kept_dead || WEXITSTATUS(status) != 44) {
      return 3;
    }
    return kill_descendants({}, kBound) && !has_children() ? 0 : 4;
  });
  CHECK(agent.end() == ExitStatus{Kind::exited, 0});
}

/// What the escaping processes may use up, shared by all of them: so that a failing test ends, and
/// the machine that it runs on never notices.
struct Limits {
  std::atomic<int> forks{0};
  std::chrono::steady_clock::time_point end;

  bool may_fork(int forks_max) {
    return forks.fetch_add(1) < forks_max && std::chrono::steady_clock::now() < end;
  }
};
constexpr std::chrono::seconds kEscapeMax{10};

/// Children that fork children, and so on; none ends.
[[noreturn]] void tree(Limits& limits, bool new_sessions) {
  constexpr int kProcessesMax = 250;
  ::alarm(kEscapeMax.count());
  while (limits.may_fork(kProcessesMax)) {
    if (::fork() == 0 && new_sessions) {
      ::setsid();
    }
  }
  ::pause();
  ::_exit(0);
}

/// A few processes that are never the same for long: each forks, and ends.
[[noreturn]] void comets(Limits& limits, bool new_sessions) {
  constexpr int kForksMax = 1'000'000;
  constexpr int kComets = 4;
  for (int i = 1; i < kComets && ::fork() != 0; ++i) {
  }
  while (limits.may_fork(kForksMax)) {
    if (::fork() != 0) {
      ::_exit(0);
    }
    if (new_sessions) {
      ::setsid();
    }
  }
  ::_exit(0);
}

/// Whether kill_descendants has caught all of them, before they ended by themselves.
void check_caught(void (*escape)(Limits&, bool), bool new_sessions) {
  Forked agent([&] {
    void* const shared =
        ::mmap(nullptr, sizeof(Limits), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    Limits& limits = *std::construct_at(static_cast<Limits*>(shared));
    limits.end = std::chrono::steady_clock::now() + kEscapeMax;
    const Pipe running;
    if (!become_subreaper()) {
      return 1;
    }
    const pid_t first = ::fork();
    if (first == 0) {
      ::setsid();
      if (::write(running.ends[1], "\n", 1) == 1) {
        escape(limits, new_sessions);
      }
      ::_exit(1);
    }
    await_lines(running.ends[0], 1);
    while (limits.forks < 50) {
      ::sched_yield();
    }
    const auto killed = kill_descendants({}, std::chrono::seconds(5));
    const bool by_us = std::chrono::steady_clock::now() < limits.end;
    say((killed ? "killed " + std::to_string(*killed) : killed.error().sentence()) + " after " +
        std::to_string(limits.forks) + " forks");
    return killed && by_us && !has_children() ? 0 : 2;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CAPTURE(agent.text());
  CHECK(agent.end() == ExitStatus{Kind::exited, 0});
}

TEST_CASE("a tree that forks all the time is killed", "[agent]") {
  check_caught(tree, false);
  check_caught(tree, true);
}

TEST_CASE("a process that is another one all the time is caught", "[agent]") {
  check_caught(comets, false);
  check_caught(comets, true);
}

TEST_CASE("what cannot be killed is named after the bound, and not waited for", "[agent]") {
  const auto freezer = test::ControlGroup::freezer();
  NEEDS_GROUP(freezer);
  Forked agent([&] {
    const pid_t child = start("exec sleep 1000");
    const std::string comm = "/proc/" + std::to_string(child) + "/comm";
    if (!test::wait_until([&] { return test::read_file(comm) == "sleep\n"; })) {
      return 2;
    }
    freezer.add(child);
    freezer.freeze();
    const auto start_time = std::chrono::steady_clock::now();
    const auto killed = kill_descendants({}, std::chrono::milliseconds(100));
    const auto took = std::chrono::steady_clock::now() - start_time;
    freezer.thaw();
    say(killed ? "killed" : killed.error().sentence());
    ::waitpid(child, nullptr, 0);
    const bool in_time = took >= std::chrono::milliseconds(100) && took < std::chrono::seconds(2);
    return !killed && in_time ? 0 : 1;
  });
  CHECK(agent.all_gone_within(Forked::kPatience));
  CHECK_THAT(agent.text(), Catch::Contains("(sleep, state D)") && Catch::Contains("SIGKILL"));
  CHECK(agent.end().success());
}

}  // namespace
}  // namespace ddprun
