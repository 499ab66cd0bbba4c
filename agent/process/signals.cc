#include "agent/process/signals.h"

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

/// The mask before the hold, which is what the process was started with. A global, like the mask.
std::optional<sigset_t> mask_before_hold;

sigset_t set_of(std::span<const int> numbers) {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : numbers) {
    ::sigaddset(&set, number);
  }
  return set;
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
}

void accept_early_signals() {
  if (const auto before = std::exchange(mask_before_hold, std::nullopt)) {
    ::pthread_sigmask(SIG_SETMASK, &*before, nullptr);
  }
}

void hold_back(const std::vector<int>& numbers) {
  // Not by ignoring them: a SignalSource that ends gives each of its signals the default back.
  const sigset_t held = set_of(numbers);
  ::pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

}  // namespace ddprun
