#include "rendezvous/control/held_world.h"

#include <spdlog/spdlog.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <utility>

#include "rendezvous/base/held_signals.h"
#include "rendezvous/control/follower.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// The store listens before its world is assigned. A kernel asks for a connection again after a
/// second, and the job waits for this node meanwhile.
constexpr std::chrono::milliseconds kMasterTimeout{1'000};

}  // namespace

/// One attempt to connect to the world's address; `owner` is null once it is over.
struct HeldWorld::Check : std::enable_shared_from_this<HeldWorld::Check> {
  Check(asio::io_context& io, HeldWorld& the_owner)
      : owner(&the_owner), resolver(io), socket(io), timer(io) {}

  void begin(const World& world) {
    timer.expires_after(kMasterTimeout);
    timer.async_wait([self = shared_from_this()](error_code cancelled) {
      if (!cancelled) {
        self->finish("no answer");
      }
    });
    const HeldSignals held;  // Asio asks for names in a thread of its own
    resolver.async_resolve(world.master_addr, std::to_string(world.master_port),
                           [self = shared_from_this()](error_code failed, const auto& found) {
                             if (failed) {
                               self->finish("the name cannot be resolved: " + failed.message());
                             } else if (self->owner != nullptr) {
                               self->connect(found);
                             }
                           });
  }

  /// The store takes a connection that says nothing and closes for one of a worker that has died.
  void connect(const tcp::resolver::results_type& found) {
    asio::async_connect(socket, found,
                        [self = shared_from_this()](error_code failed, const tcp::endpoint&) {
                          self->finish(failed ? failed.message() : std::string());
                        });
  }

  void finish(const std::string& why) {
    if (HeldWorld* const told = owner) {
      cancel();
      told->settle(why);
    }
  }

  void cancel() {
    owner = nullptr;
    resolver.cancel();
    timer.cancel();
    error_code ignored;
    socket.close(ignored);
  }

  HeldWorld* owner;
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
};

HeldWorld::HeldWorld(asio::io_context& io, std::shared_ptr<spdlog::logger> log,
                     FollowerHandler& handler)
    : io_(io), log_(std::move(log)), handler_(handler) {}

HeldWorld::~HeldWorld() {
  drop();
}

/// The check costs a round trip, and only a world that names another address than this agent came
/// by needs it: the first node was given a --local-addr.
void HeldWorld::hold(const World& world, const std::string& reached) {
  release();
  if (reached.empty() || world.master_addr == reached) {
    handler_.on_assigned(world);
    return;
  }
  world_ = world;
  reached_ = reached;
  check_ = std::make_shared<Check>(io_, *this);
  check_->begin(world_);
}

/// The address by which the coordinator was reached is as good as its own: the store listens at all
/// of its host's addresses.
void HeldWorld::settle(const std::string& why) {
  if (!why.empty()) {
    log_->warn(
        "workers here cannot reach {} port {}, the --local-addr of the coordinator's node ({}); "
        "they meet at {} instead, by which that node was reached",
        world_.master_addr, world_.master_port, why, reached_);
    world_.master_addr = reached_;
  }
  release();
}

/// The world goes first: the agent learns of an order only once it has what the order is for.
void HeldWorld::release() {
  if (check_) {
    drop();
    handler_.on_assigned(world_);
  }
}

/// The search may be over, or the agent: what was to be started is started no more.
void HeldWorld::drop() {
  if (const auto check = std::exchange(check_, nullptr)) {
    check->cancel();
  }
}

}  // namespace ddprun
