#include "rendezvous/base/signal_name.h"

#include <algorithm>
#include <csignal>
#include <iterator>

namespace ddprun {
namespace {

struct Named {
  int number;
  std::string_view name;
};
/// glibc has such a table since 2.32 only (sigabbrev_np). Of a signal with two names the first is
/// the one that people are told; users write both. Real-time signals have numbers only.
constexpr Named kNames[] = {
    {SIGHUP, "SIGHUP"},       {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"}, {SIGILL, "SIGILL"},
    {SIGTRAP, "SIGTRAP"},     {SIGABRT, "SIGABRT"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
    {SIGKILL, "SIGKILL"},     {SIGUSR1, "SIGUSR1"}, {SIGSEGV, "SIGSEGV"}, {SIGUSR2, "SIGUSR2"},
    {SIGPIPE, "SIGPIPE"},     {SIGALRM, "SIGALRM"}, {SIGTERM, "SIGTERM"}, {SIGSTKFLT, "SIGSTKFLT"},
    {SIGCHLD, "SIGCHLD"},     {SIGCONT, "SIGCONT"}, {SIGSTOP, "SIGSTOP"}, {SIGTSTP, "SIGTSTP"},
    {SIGTTIN, "SIGTTIN"},     {SIGTTOU, "SIGTTOU"}, {SIGURG, "SIGURG"},   {SIGXCPU, "SIGXCPU"},
    {SIGXFSZ, "SIGXFSZ"},     {SIGPROF, "SIGPROF"}, {SIGIO, "SIGIO"},     {SIGPWR, "SIGPWR"},
    {SIGVTALRM, "SIGVTALRM"}, {SIGSYS, "SIGSYS"},   {SIGIOT, "SIGIOT"},   {SIGWINCH, "SIGWINCH"},
    {SIGPOLL, "SIGPOLL"},     {SIGCLD, "SIGCLD"},
};

}  // namespace

/// The name that people look for in the messages of other programs, as signal(7) has it.
std::string signal_name(int number) {
  const auto* const found = std::find_if(std::begin(kNames), std::end(kNames),
                                         [&](const Named& one) { return one.number == number; });
  return found != std::end(kNames) ? std::string(found->name) : "signal " + std::to_string(number);
}

/// With SIG or without, as kill(1) takes it.
int signal_number(std::string_view name) {
  const auto* const found = std::find_if(
      std::begin(kNames), std::end(kNames),
      [&](const Named& one) { return name == one.name || name == one.name.substr(3); });
  return found != std::end(kNames) ? found->number : 0;
}

}  // namespace ddprun
