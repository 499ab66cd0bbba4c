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

/// For the rest of this thread's life none of them is delivered: what was decided is written and
/// told, whatever comes in between. SIGKILL ends it all the same.
void hold_back(const std::vector<int>& numbers);

}  // namespace ddprun
