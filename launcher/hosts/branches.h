// Branches: all hosts below a process, split among those that it reaches itself.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/hosts/branch.h"

namespace ddprun {

class Branches {
 public:
  /// Starts all of `start.hosts`, none too. `events` are Branch's: `on_end` comes once, when the
  /// last branch has ended.
  Branches(boost::asio::io_context& io, const RelayStart& start,
           const std::vector<std::string>& environment, Branch::Events events);

  void signal(int number);
  void hang_up();
  [[nodiscard]] bool all_ended() const { return running_ == 0; }

 private:
  Branch::Events events_;
  std::vector<std::unique_ptr<Branch>> branches_;
  std::size_t running_ = 0;
};

}  // namespace ddprun
