#include "agent/process/signals.h"

#include <ucontext.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

namespace ddprun {
namespace {

/// What a user, a scheduler or a terminal asks an agent with. Not those of a fault, nor SIGTSTP.
constexpr std::array kEarlySignals = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/// A start takes milliseconds. One that takes so long hangs, in a GPU's driver as a rule: then the
/// user's Ctrl-C has to end it.
constexpr int kHoldSecondsMax = 5;

/// The mask that the process was started with, and the timer that ends the hold. Globals, like
/// what they describe.
std::optional<sigset_t> mask_before_hold;
std::optional<timer_t> hold_limit;

sigset_t set_of(std::span<const int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) {
    ::sigaddset(&set, number);
  }
  return set;
}

/// Of the thread that it interrupts, once it returns: the kernel takes the mask back from there.
void end_hold(int /*number*/, siginfo_t* /*info*/, void* context) {
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
  // Not SIGALRM: whoever started ddprun may have set an alarm for it, which execve(2) keeps.
  const int number = SIGRTMIN;
  struct sigaction on_limit = {};
  on_limit.sa_sigaction = end_hold;
  on_limit.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(number, &on_limit, nullptr);
  const sigset_t limit = set_of({&number, 1});
  ::pthread_sigmask(SIG_UNBLOCK, &limit, nullptr);
  struct sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  if (::timer_create(CLOCK_MONOTONIC, &event, &hold_limit.emplace()) != 0) {
    hold_limit.reset();
    return;
  }
  const struct itimerspec once = {{}, {kHoldSecondsMax, 0}};
  ::timer_settime(*hold_limit, 0, &once, nullptr);
}

void hold_without_limit() {
  if (const auto limit = std::exchange(hold_limit, std::nullopt)) {
    ::timer_delete(*limit);
    std::signal(SIGRTMIN, SIG_DFL);
  }
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
