// StatusDisplay: shows what the job waits for. On a terminal one table that is redrawn in place
// every second, with its times going on; in a log a few plain lines each time it is told something.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/membership/rendezvous_status.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class Console;

class StatusDisplay {
 public:
  /// `fd` is the descriptor that `console` and `log` write to; it is only asked whether it is a
  /// terminal, and how wide. All three must outlive the board.
  StatusDisplay(boost::asio::io_context& io, Console& console, int fd,
                std::shared_ptr<spdlog::logger> log);
  ~StatusDisplay();
  StatusDisplay(const StatusDisplay&) = delete;
  StatusDisplay& operator=(const StatusDisplay&) = delete;

  void show(const RendezvousStatus& table);
  /// Nothing is waited for any more: a table on a terminal goes. Safe to repeat.
  void clear();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
