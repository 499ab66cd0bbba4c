// HeldWorld: keeps an assigned world back until its workers can reach the place where they are to
// meet. The first node's --local-addr may name an address of another network: workers would try it
// for half an hour, and say no more than that it timed out. Internal to control.
#pragma once

#include <memory>
#include <string>

#include "rendezvous/membership/world.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class FollowerHandler;

class HeldWorld {
 public:
  /// A world is released to `handler`, as on_assigned().
  HeldWorld(boost::asio::io_context& io, std::shared_ptr<spdlog::logger> log,
            FollowerHandler& handler);
  ~HeldWorld();
  HeldWorld(const HeldWorld&) = delete;
  HeldWorld& operator=(const HeldWorld&) = delete;

  /// Releases the world, at once where it names `reached`, an address of the coordinator's host by
  /// which this agent, or others, reached it (empty: not known); else when its own address has
  /// answered. Where that does not within a second, the world names `reached` instead, and a
  /// warning says so.
  void hold(const World& world, const std::string& reached);
  /// At once and as it is: another order has come, and it is for this world.
  void release();
  /// Nobody waits for it any more.
  void drop();

 private:
  struct Check;

  void settle(const std::string& why);

  boost::asio::io_context& io_;
  std::shared_ptr<spdlog::logger> log_;
  FollowerHandler& handler_;
  World world_;
  std::string reached_;
  std::shared_ptr<Check> check_;  ///< while a world is held
};

}  // namespace ddprun
