// Branch: the process that leads to one host, an ssh as a rule, and what comes through it from the
// relay there, which starts the host's agent and the hosts below it.
//
// Its stdin ties the far end to this one: when it closes, by hang_up() or by the death of any
// process between, the relay ends all that it has started.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/output/console.h"
#include "launcher/hosts/relay_message.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

class Branch {
 public:
  struct Events {
    /// Of each host: its output, then one HostEnded or HostLost.
    std::function<void(const FromHost& message)> on_message;
    /// Once, after the last message. The branch may be destroyed in it.
    std::function<void()> on_end;
    /// PipeReader's: what to wait for before more is read.
    std::function<Console*()> full;
  };

  /// `start.hosts` are those of this branch. `environment`, "NAME=value", is that of the process
  /// here. A failure at any step is a HostLost for each host, on the loop.
  Branch(boost::asio::io_context& io, RelayStart start, std::vector<std::string> environment,
         Events events);
  /// A process that still runs is killed.
  ~Branch();
  Branch(const Branch&) = delete;
  Branch& operator=(const Branch&) = delete;

  /// To the agents of all its hosts; those that have not begun get it as they begin.
  void signal(int number);
  /// All that was started over there ends at once. on_end comes when it has.
  void hang_up();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
