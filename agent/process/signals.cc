#include "agent/process/signals.h"

#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <optional>
#include <span>
#include <utility>

namespace ddprun {
namespace {

/// What a user, a scheduler or a terminal asks an agent with. Not those of a fault, nor SIGTSTP.
constexpr std::array kEarlySignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// A start takes milliseconds. One that takes so long hangs, in a GPU's driver as a rule: then the
/// user's Ctrl-C has to end it.
constexpr unsigned kHoldSecondsMax = 5;

/// What the process was started with. Globals, like what they describe.
std::optional<sigset_t> mask_before_hold;
struct sigaction alarm_before_hold;

sigset_t set_of(std::span<const int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) {
    ::sigaddset(&set, number);
  }
  return set;
}

/// Of the thread that it interrupts, once it returns: the kernel takes the mask back from there.
void end_hold(int /*SIGALRM*/, siginfo_t* /*info*/, void* context) {
  for (const int number : kEarlySignals) {
    ::sigdelset(&static_cast<ucontext_t*>(context)->uc_sigmask, number);
  }
}

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
          // Armed again before the callback, since that may destroy the source.
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
    // The user's list may hold SIGKILL, SIGSTOP or a number that does not exist. The set refuses
    // those; the others are handled.
    boost::system::error_code refused;
    impl_->set.add(number, refused);
  }
  Impl::wait(impl_);
}

SignalSource::~SignalSource() = default;

void hold_early_signals() {
  const sigset_t held = set_of(kEarlySignals);
  ::pthread_sigmask(SIG_BLOCK, &held, &mask_before_hold.emplace());
  struct sigaction on_alarm = {};
  on_alarm.sa_sigaction = end_hold;
  on_alarm.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGALRM, &on_alarm, &alarm_before_hold);
  ::alarm(kHoldSecondsMax);
}

void hold_without_limit() {
  ::alarm(0);
  ::sigaction(SIGALRM, &alarm_before_hold, nullptr);
}

void accept_early_signals() {
  if (const auto before = std::exchange(mask_before_hold, std::nullopt)) {
    hold_without_limit();
    ::pthread_sigmask(SIG_SETMASK, &*before, nullptr);
  }
}

void hold_back(const std::vector<int>& numbers) {
  // Not by ignoring them: a SignalSource that ends gives each of its signals the default back.
  const sigset_t held = set_of(numbers);
  ::pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

}  // namespace ddprun
