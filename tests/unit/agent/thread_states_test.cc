#include "agent/hang/thread_states.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "agent/hang/collective_position.h"
#include "agent/hang/process_usage.h"
#include "tests/support/child_process.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace ddprun::test;

TEST_CASE("A process that sleeps is described thread by thread") {
  ChildProcess child({.argv = {"sh", "-c", "trap : USR1; echo up; read none < /dev/ptmx"}});
  REQUIRE(child.wait_for_out("up"));
  const std::string id = std::to_string(child.pid());
  REQUIRE(wait_until([&] {
    return describe_threads(child.pid()).starts_with("thread " + id + " (sh): state S (sleeping)");
  }));
  CHECK(threads_of(child.pid()) == std::vector<pid_t>{child.pid()});
  CHECK(catches(child.pid(), SIGUSR1));
  CHECK_FALSE(catches(child.pid(), SIGUSR2));
  CHECK_FALSE(executable_of(child.pid()).empty());
  CHECK(standstill_of(child.pid()).empty());
  child.signal(SIGSTOP);
  CHECK(wait_until([&] { return standstill_of(child.pid()) == "stopped by a signal (state T)"; }));
}

TEST_CASE("Nothing is told of a process that is gone") {
  ChildProcess child({.argv = {"true"}});
  REQUIRE(child.exit_code() == 0);
  CHECK(describe_threads(child.pid()).empty());
  CHECK(threads_of(child.pid()).empty());
  CHECK(cpu_time_of(child.pid()).count() == 0);
  CHECK(standstill_of(child.pid()).empty());
}

TEST_CASE("Processor time counts what the children use, also once they are gone") {
  ChildProcess child(
      {.argv = {"sh", "-c",
                "sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo up; "
                "read none < /dev/ptmx"}});
  REQUIRE(child.wait_for_out("up"));
  CHECK(cpu_time_of(child.pid()) >= std::chrono::milliseconds(10));
}

TEST_CASE("A file that grows is seen to, others are not looked into") {
  const TempDir dir;
  const std::string path = dir.write("log", "12345");
  CHECK(growth_of(path) == 5);
  CHECK(growth_of("") == 0);
  CHECK(growth_of("/dev/null") == 0);
}
