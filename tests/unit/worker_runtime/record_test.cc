#include "ddp/record.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

#include "ddp/error.h"
#include "rendezvous/contract/error_file.h"
#include "tests/support/temp_dir.h"

namespace {

struct Recorded {
  int status = 0;  ///< of waitpid
  std::string file;
  [[nodiscard]] ddprun::ErrorRecord parsed() const {
    const auto record = ddprun::parse_error_record(file);
    INFO(file);
    REQUIRE(record.has_value());
    return *record;
  }
};

/// Runs `body` under record() in a process of its own.
Recorded run_recorded(const std::function<int()>& body) {
  const ddprun::test::TempDir dir;
  const std::string path = dir.file("error.json");
  const pid_t pid = ::fork();
  if (pid == 0) {
    const rlimit no_core{};
    ::setrlimit(RLIMIT_CORE, &no_core);
    // A sanitizer's and Catch's own handlers are not what is tested.
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
      ::signal(number, SIG_DFL);
    }
    ::setenv("TORCHELASTIC_ERROR_FILE", path.c_str(), 1);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) {
      ::_exit(98);
    }
    ::_exit(ddp::record(body));
  }
  Recorded result;
  ::waitpid(pid, &result.status, 0);
  result.file = ddprun::test::read_file(path);
  return result;
}

[[gnu::noinline]] int throw_from_here(const std::string& text) {
  throw std::runtime_error(text);
}

[[gnu::noinline]] int overflow_stack(volatile int* depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return *depth > (1 << 30) ? 0 : overflow_stack(depth) + room[0];
}

void check_time_is_now(const ddprun::ErrorRecord& record) {
  const auto age = std::chrono::system_clock::now() - record.time;
  CHECK(age >= std::chrono::seconds(0));
  CHECK(age < std::chrono::seconds(20));
}

}  // namespace

TEST_CASE("a main that returns leaves no error file and its own status", "[worker_runtime]") {
  const Recorded good = run_recorded([] { return 0; });
  CHECK(good.status == 0);
  CHECK(good.file.empty());
  const Recorded bad = run_recorded([] { return 7; });
  CHECK(WEXITSTATUS(bad.status) == 7);
  CHECK(bad.file.empty());
}

TEST_CASE("an exception is recorded with type, text, stack and time, and the status is 1",
          "[worker_runtime]") {
  const Recorded result =
      run_recorded([] { return throw_from_here("no \"quotes\" lost\nsecond line"); });
  REQUIRE(WIFEXITED(result.status));
  CHECK(WEXITSTATUS(result.status) == 1);
  const auto record = result.parsed();
  CHECK(record.message == "std::runtime_error: no \"quotes\" lost\nsecond line");
  CHECK_THAT(record.callstack, Catch::Contains("unit_worker_runtime_record+0x"));
  CHECK_FALSE(record.peer_lost);
  check_time_is_now(record);
}

TEST_CASE("a lost peer is recorded as such", "[worker_runtime]") {
  const Recorded result = run_recorded(
      []() -> int { throw ddp::PeerLost("all_reduce #3 failed", "all_reduce", 3, 1); });
  const auto record = result.parsed();
  CHECK(record.message == "all_reduce #3 failed");
  CHECK(record.peer_lost);
}

TEST_CASE("an exception that is no std::exception is recorded by its type", "[worker_runtime]") {
  const Recorded result = run_recorded([]() -> int { throw 42; });
  CHECK(WEXITSTATUS(result.status) == 1);
  CHECK(result.parsed().message == "an exception of type int");
}

TEST_CASE("a fatal signal is recorded and stays the cause of death", "[worker_runtime]") {
  struct Case {
    int signal;
    const char* message;
  };
  for (const Case& c :
       {Case{SIGSEGV, "SIGSEGV: segmentation fault, sent by"}, Case{SIGBUS, "SIGBUS: bus error"},
        Case{SIGFPE, "SIGFPE: arithmetic error"}, Case{SIGILL, "SIGILL: illegal instruction"},
        Case{SIGABRT, "SIGABRT: abort"}}) {
    const Recorded result = run_recorded([&c] { return ::raise(c.signal); });
    REQUIRE(WIFSIGNALED(result.status));
    CHECK(WTERMSIG(result.status) == c.signal);
    const auto record = result.parsed();
    CHECK_THAT(record.message, Catch::StartsWith(c.message));
    CHECK_THAT(record.callstack, Catch::Contains("unit_worker_runtime_record"));
    check_time_is_now(record);
  }
}

TEST_CASE("a wild pointer is recorded with its address", "[worker_runtime]") {
  const Recorded result = run_recorded([] {
    // Through a volatile pointer and a syscall-free store, so that the compiler keeps it.
    int* volatile wild = reinterpret_cast<int*>(0x10);
    __asm__ volatile("movl $1, (%0)" : : "r"(wild) : "memory");
    return 0;
  });
  REQUIRE(WIFSIGNALED(result.status));
  CHECK(WTERMSIG(result.status) == SIGSEGV);
  CHECK(result.parsed().message == "SIGSEGV: segmentation fault at address 0x10");
}

TEST_CASE("an overflown stack is recorded all the same", "[worker_runtime]") {
  const Recorded result = run_recorded([] {
    int depth = 0;
    return overflow_stack(&depth);
  });
  REQUIRE(WIFSIGNALED(result.status));
  CHECK(WTERMSIG(result.status) == SIGSEGV);
  CHECK_THAT(result.parsed().message, Catch::StartsWith("SIGSEGV: segmentation fault at"));
}

TEST_CASE("a failed check is recorded with its text", "[worker_runtime]") {
  const Recorded result = run_recorded([] {
    const int loss = -1;
    DDP_ASSERT(loss >= 0, "the loss must not be negative");
    return 0;
  });
  REQUIRE(WIFSIGNALED(result.status));
  CHECK(WTERMSIG(result.status) == SIGABRT);
  CHECK_THAT(result.parsed().message,
             Catch::StartsWith(
                 "SIGABRT: abort: failed check: the loss must not be negative (loss >= 0) at"));
}

TEST_CASE("an exception that leaves another thread is recorded with its text", "[worker_runtime]") {
  const Recorded result = run_recorded([] {
    std::thread([] { throw std::logic_error("in a loader thread"); }).join();
    return 0;
  });
  REQUIRE(WIFSIGNALED(result.status));
  CHECK(WTERMSIG(result.status) == SIGABRT);
  CHECK(result.parsed().message == "SIGABRT: abort: std::logic_error: in a loader thread");
}

TEST_CASE("an error file that cannot be written changes nothing else", "[worker_runtime]") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setenv("TORCHELASTIC_ERROR_FILE", "/nonexistent/error.json", 1);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) {
      ::_exit(98);
    }
    ::_exit(ddp::record([]() -> int { throw std::runtime_error("x"); }));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
}
