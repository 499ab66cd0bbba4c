#include "agent/process/signals.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>

namespace ddprun {
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

void hold_back(const std::vector<int>& numbers) {
  // Not by ignoring them: a SignalSource that ends gives each of its signals the default back.
  sigset_t held;
  ::sigemptyset(&held);
  for (const int number : numbers) {
    ::sigaddset(&held, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &held, nullptr);
}

}  // namespace ddprun
