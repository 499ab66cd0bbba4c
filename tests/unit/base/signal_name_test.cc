#include "rendezvous/base/signal_name.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <string>

namespace ddprun {
namespace {

TEST_CASE("signals have numbers by name, with SIG and without") {
  CHECK(signal_number("SIGTERM") == 15);
  CHECK(signal_number("TERM") == 15);
  CHECK(signal_number("SIGCLD") == SIGCHLD);
  CHECK(signal_number("SIGIOT") == SIGABRT);
  CHECK(signal_number("SIGPOLL") == SIGIO);
  for (const char* none :
       {"", "SIG", "sigterm", "SIGNOTHING", "15", "SIGTER", "SIGTERMS", "signal 40", "nal 40"}) {
    CAPTURE(none);
    CHECK(signal_number(none) == 0);
  }
}

TEST_CASE("every signal of this system has the name that kill -l prints") {
  for (int number = 1; number < 32; ++number) {
    CAPTURE(number);
    CHECK(signal_number(signal_name(number)) == number);
    REQUIRE(::sigabbrev_np(number) != nullptr);
    const std::string abbreviated = number == SIGIO ? "IO" : ::sigabbrev_np(number);  // glibc: POLL
    CHECK(signal_name(number) == "SIG" + abbreviated);
  }
  CHECK(signal_name(15) == "SIGTERM");
  CHECK(signal_name(SIGIO) == "SIGIO");
  CHECK(signal_name(40) == "signal 40");
  CHECK(signal_name(250) == "signal 250");
}

}  // namespace
}  // namespace ddprun
