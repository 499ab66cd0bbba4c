#include "agent/process/process_tree.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "tests/support/event_wait.h"
#include "tests/unit/agent/forked.h"

namespace ddprun {
namespace {

TEST_CASE("a stat line is read whatever the process calls itself", "[agent]") {
  const auto plain = parse_proc_stat("12 (sleep) S 3 45 67 0 -1 4194304\n");
  REQUIRE(plain);
  CHECK(plain->name == "sleep");
  CHECK(plain->state == 'S');
  CHECK(plain->parent == 3);
  CHECK(plain->group == 45);
  CHECK(plain->session == 67);
  CHECK_FALSE(plain->exiting);
  const auto exits = parse_proc_stat("12 (python) R 3 45 67 0 -1 4194308 0 0\n");
  REQUIRE(exits);
  CHECK(exits->exiting);
  const auto nasty = parse_proc_stat("12 (a) R 1 1 1 (b\n) D 8 9 10 0");
  REQUIRE(nasty);
  CHECK(nasty->name == "a) R 1 1 1 (b\n");
  CHECK(nasty->parent == 8);
  CHECK(nasty->session == 10);
}

TEST_CASE("a stat line tells what a process and the children that it reaped have computed",
          "[agent]") {
  const auto busy = parse_proc_stat("12 (train) R 3 45 67 0 -1 4194304 9 9 9 9 100 20 3 4 20 0\n");
  REQUIRE(busy);
  CHECK(busy->cpu_ticks == 127);
  const auto cut = parse_proc_stat("12 (train) R 3 45 67 0 -1 4194304 9 9 9 9 100");
  REQUIRE(cut);
  CHECK(cut->cpu_ticks == 100);
}

TEST_CASE("what is no stat line is refused", "[agent]") {
  for (const char* text : {"", "12 sleep S 3 4 5", "12 (sleep", ")(", "12 (sleep) S 3 4",
                           "12 (sleep) S x 4 5", "12 (sleep) SS 3 4 5"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_proc_stat(text));
  }
}

TEST_CASE("both ways to find children agree, zombies included", "[agent]") {
  const test::Forked waiting([] { return ::pause(); });
  const test::Forked dead([] { return 0; });
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(dead.pid()), &info, WEXITED | WNOWAIT) == 0);
  const std::vector<pid_t> expected{waiting.pid(), dead.pid()};
  for (const auto source : {ProcessTree::Source::scan, ProcessTree::best_source()}) {
    CHECK_THAT(ProcessTree(source).children(::getpid()),
               Catch::Matchers::UnorderedEquals(expected));
    CHECK(ProcessTree(source).children(waiting.pid()).empty());
  }
  CHECK(read_proc_stat(dead.pid())->state == 'Z');
  CHECK(read_proc_stat(waiting.pid())->parent == ::getpid());
}

TEST_CASE("a process whose main thread has ended exits when its last thread does", "[agent]") {
  int gate[2];
  REQUIRE(::pipe(gate) == 0);
  const test::Forked without_main([&] {
    ::close(gate[1]);
    std::thread([&] {
      char byte = 0;
      ::_exit(static_cast<int>(::read(gate[0], &byte, 1)));  // at the end of the pipe
    }).detach();                                             // allowed: the process ends with it
    return ::syscall(SYS_exit, 0);
  });
  REQUIRE(test::wait_until([&] { return read_proc_stat(without_main.pid())->state == 'Z'; }));
  CHECK(read_proc_stat(without_main.pid())->exiting);
  CHECK_FALSE(all_threads_exit(without_main.pid()));
  CHECK_FALSE(all_threads_exit(::getpid()));
  ::close(gate[1]);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(without_main.pid()), &info, WEXITED | WNOWAIT) == 0);
  CHECK(all_threads_exit(without_main.pid()));
  ::close(gate[0]);
}

}  // namespace
}  // namespace ddprun
