#include "rendezvous/base/signal_name.h"

#include <array>
#include <csignal>
#include <cstring>
#include <utility>

namespace ddprun {
namespace {

constexpr int kLastNamed = 31;  // those above are real-time signals
constexpr std::array<std::pair<std::string_view, int>, 3> kSecondNames{
    {{"SIGIOT", SIGABRT}, {"SIGPOLL", SIGPOLL}, {"SIGCLD", SIGCHLD}}};

}  // namespace

std::string signal_name(int number) {
  if (number == SIGIO) {
    return "SIGIO";  // glibc says POLL
  }
  const char* const name = ::sigabbrev_np(number);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(number);
}

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
