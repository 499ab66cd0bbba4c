// Signals: process signals as events on the loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace ddprun {

class SignalSource {
 public:
  /// `on_signal` is called on the loop for each of `numbers` that arrives. SIGPIPE is ignored for
  /// the whole process (workers get its default back). A number that no process can catch (SIGKILL,
  /// SIGSTOP) or that does not exist is passed over.
  SignalSource(boost::asio::io_context& io, const std::vector<int>& numbers,
               std::function<void(int)> on_signal);
  ~SignalSource();
  SignalSource(const SignalSource&) = delete;
  SignalSource& operator=(const SignalSource&) = delete;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// For the very start: a signal that asks an agent for something waits from here on, for five
/// seconds at most, and does not end the process by its default. One thread; needs no static
/// object; takes SIGRTMIN. A child made by fork(2) holds them too, without the limit.
void hold_early_signals();
/// The command line and the host are read: from here on they wait until they are accepted.
void hold_without_limit();
/// They are delivered again, and those that waited come now: to their handlers in an agent that has
/// a SignalSource, by their default in a program that runs none. Without a hold nothing happens.
void accept_early_signals();

/// For the rest of this thread's life none of them is delivered: what was decided is written and
/// told, whatever comes in between. SIGKILL ends it all the same.
void hold_back(const std::vector<int>& numbers);

}  // namespace ddprun
