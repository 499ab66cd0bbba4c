#include "agent/process/signals.h"

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <string_view>

namespace ddprun {
namespace {

struct Name {
  int number;
  const char* name;
};

// The first name of a number is the one we print.
constexpr std::array kNames = {
    Name{SIGHUP, "SIGHUP"},       Name{SIGINT, "SIGINT"},       Name{SIGQUIT, "SIGQUIT"},
    Name{SIGILL, "SIGILL"},       Name{SIGTRAP, "SIGTRAP"},     Name{SIGABRT, "SIGABRT"},
    Name{SIGBUS, "SIGBUS"},       Name{SIGFPE, "SIGFPE"},       Name{SIGKILL, "SIGKILL"},
    Name{SIGUSR1, "SIGUSR1"},     Name{SIGSEGV, "SIGSEGV"},     Name{SIGUSR2, "SIGUSR2"},
    Name{SIGPIPE, "SIGPIPE"},     Name{SIGALRM, "SIGALRM"},     Name{SIGTERM, "SIGTERM"},
    Name{SIGSTKFLT, "SIGSTKFLT"}, Name{SIGCHLD, "SIGCHLD"},     Name{SIGCONT, "SIGCONT"},
    Name{SIGSTOP, "SIGSTOP"},     Name{SIGTSTP, "SIGTSTP"},     Name{SIGTTIN, "SIGTTIN"},
    Name{SIGTTOU, "SIGTTOU"},     Name{SIGURG, "SIGURG"},       Name{SIGXCPU, "SIGXCPU"},
    Name{SIGXFSZ, "SIGXFSZ"},     Name{SIGVTALRM, "SIGVTALRM"}, Name{SIGPROF, "SIGPROF"},
    Name{SIGWINCH, "SIGWINCH"},   Name{SIGIO, "SIGIO"},         Name{SIGPWR, "SIGPWR"},
    Name{SIGSYS, "SIGSYS"},       Name{SIGIOT, "SIGIOT"},       Name{SIGPOLL, "SIGPOLL"},
    Name{SIGCHLD, "SIGCLD"},
};

/// Of what a wait status can hold.
constexpr int kLastNumber = 127;

}  // namespace

struct SignalSource::Impl {
  Impl(boost::asio::io_context& io, std::function<void(int)> tell)
      : set(io), on_signal(std::move(tell)) {}

  boost::asio::signal_set set;
  std::function<void(int)> on_signal;

  static void wait(const std::shared_ptr<Impl>& self) {
    // A signal may already be on its way through the loop when the source is destroyed.
    self->set.async_wait(
        [weak = std::weak_ptr<Impl>(self)](const boost::system::error_code& error, int number) {
          const auto alive = weak.lock();
          if (!alive || error) {
            return;
          }
          wait(alive);
          alive->on_signal(number);
        });
  }
};

SignalSource::SignalSource(boost::asio::io_context& io, const std::vector<int>& numbers,
                           std::function<void(int)> on_signal)
    : impl_(std::make_shared<Impl>(io, std::move(on_signal))) {
  // A peer that closed its connection, or a file at the limit of its size (ulimit -f), is an error
  // code to us, not our death.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int number : numbers) {
    boost::system::error_code refused;
    impl_->set.add(number, refused);
  }
  Impl::wait(impl_);
}

SignalSource::~SignalSource() = default;

void hold_back(const std::vector<int>& numbers) {
  // Not by ignoring them: a SignalSource that ends gives each of its signals the default back.
  sigset_t held;
  ::sigemptyset(&held);
  for (const int number : numbers) {
    ::sigaddset(&held, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

int signal_number(const char* name) {
  const std::string_view asked = name;
  for (const Name& known : kNames) {
    const std::string_view full = known.name;
    if (asked == full || asked == full.substr(3)) {
      return known.number;
    }
  }
  return 0;
}

const char* signal_name(int number) {
  for (const Name& known : kNames) {
    if (known.number == number) {
      return known.name;
    }
  }
  // Made once, since the caller gets a pointer that stays.
  static const auto nameless = [] {
    std::array<std::array<char, 16>, kLastNumber + 1> texts{};
    for (int i = 0; i <= kLastNumber; ++i) {
      std::snprintf(texts[i].data(), texts[i].size(), "signal %d", i);
    }
    return texts;
  }();
  return number >= 0 && number <= kLastNumber ? nameless[number].data() : "an unknown signal";
}

}  // namespace ddprun
