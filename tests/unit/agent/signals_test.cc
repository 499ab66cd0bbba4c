#include "agent/process/signals.h"

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "tests/unit/agent/forked.h"

namespace ddprun {
namespace {

TEST_CASE("a signal becomes one event on the loop, again and again", "[agent]") {
  boost::asio::io_context io;
  std::vector<int> seen;
  SignalSource source(io, {SIGUSR1, SIGUSR2}, [&](int number) {
    seen.push_back(number);
    if (seen.size() == 1) {
      ::raise(SIGUSR2);
    } else {
      io.stop();
    }
  });
  ::raise(SIGUSR1);
  io.run_for(test::Forked::kPatience);
  CHECK(seen == std::vector<int>{SIGUSR1, SIGUSR2});
}

TEST_CASE("a source that is destroyed with a signal on its way stays silent", "[agent]") {
  boost::asio::io_context io;
  int events = 0;
  auto source =
      std::make_unique<SignalSource>(io, std::vector<int>{SIGUSR1}, [&](int) { ++events; });
  SECTION("before the loop has seen it") {
    ::raise(SIGUSR1);
    source.reset();
  }
  SECTION("by its own callback") {
    int inner = 0;
    source = std::make_unique<SignalSource>(io, std::vector<int>{SIGUSR2}, [&](int) {
      ++inner;
      source.reset();
    });
    ::raise(SIGUSR2);
    io.run_for(test::Forked::kPatience);
    CHECK(inner == 1);
  }
  io.restart();
  io.run_for(test::Forked::kPatience);  // returns at once: nothing is left to wait for
  CHECK(events == 0);
}

TEST_CASE("a signal from before the source comes to it, and one that nobody takes ends the process",
          "[agent]") {
  test::Forked child([] {
    hold_early_signals();
    ::raise(SIGUSR1);
    boost::asio::io_context io;
    int seen = 0;
    const SignalSource source(io, {SIGUSR1}, [&](int number) {
      seen = number;
      io.stop();
    });
    accept_early_signals();
    io.run_for(test::Forked::kPatience);
    if (seen != SIGUSR1) {
      return 1;
    }
    hold_early_signals();
    ::raise(SIGTERM);
    accept_early_signals();
    return 2;
  });
  CHECK(child.end() == ExitStatus{ExitStatus::Kind::signalled, SIGTERM});
}

TEST_CASE("SIGPIPE is ignored once there is a source, and SIGKILL in its list harms nothing",
          "[agent]") {
  test::Forked child([] {
    std::signal(SIGPIPE, SIG_DFL);
    boost::asio::io_context io;
    const SignalSource source(io, {SIGTERM, SIGKILL, SIGSTOP, 0, 1000}, [](int) {});
    ::raise(SIGPIPE);
    return 5;
  });
  CHECK(child.end() == ExitStatus{ExitStatus::Kind::exited, 5});
}

}  // namespace
}  // namespace ddprun
