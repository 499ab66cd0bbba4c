#include "launcher/hosts/branches.h"

#include <utility>

#include "launcher/hosts/fan_out.h"

namespace ddprun {

Branches::Branches(boost::asio::io_context& io, const RelayStart& start,
                   const std::vector<std::string>& environment, Branch::Events events)
    : events_(std::move(events)) {
  // All of them begin at once. ssh waits for the network most of the time; that a process starts
  // no more than fan_out bounds what its processors and descriptors have to bear.
  for (auto& hosts : split_hosts(start.hosts, start.fan_out)) {
    RelayStart one = start;
    one.hosts = std::move(hosts);
    ++running_;
    // Branches that have ended stay where they are: their buffers are small, and a signal to one
    // goes nowhere.
    const auto on_end = [this] {
      if (--running_ == 0) {
        events_.on_end();
      }
    };
    branches_.push_back(std::make_unique<Branch>(
        io, std::move(one), environment, Branch::Events{events_.on_message, on_end, events_.full}));
  }
}

void Branches::signal(int number) {
  for (const auto& branch : branches_) {
    branch->signal(number);
  }
}

void Branches::hang_up() {
  for (const auto& branch : branches_) {
    branch->hang_up();
  }
}

}  // namespace ddprun
