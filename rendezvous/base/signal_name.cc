#include "rendezvous/base/signal_name.h"

#include <array>
#include <csignal>
#include <cstring>
#include <utility>

namespace ddprun {
namespace {

/// Those above are real-time signals, and have numbers only.
constexpr int kLastNamed = 31;
/// Names that mean a signal which has another one in signal_name(). Users write both.
constexpr std::array<std::pair<std::string_view, int>, 3> kSecondNames{
    {{"SIGIOT", SIGABRT}, {"SIGPOLL", SIGPOLL}, {"SIGCLD", SIGCHLD}}};

}  // namespace

/// The name that people look for in the messages of other programs, as signal(7) has it.
std::string signal_name(int number) {
  if (number == SIGIO) {
    return "SIGIO";  // glibc says POLL
  }
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

/// With SIG or without, as kill(1) takes it. Through the names, so that both functions agree.
int signal_number(std::string_view name) {
  const auto is = [name](std::string_view full) { return name == full || name == full.substr(3); };
  for (int number = 1; number <= kLastNamed; ++number) {
    if (is(signal_name(number))) {
      return number;
    }
  }
  for (const auto& [second, number] : kSecondNames) {
    if (is(second)) {
      return number;
    }
  }
  return 0;
}

}  // namespace ddprun
