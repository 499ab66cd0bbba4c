#include "rendezvous/control/coordinator_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <memory>
#include <string>

#include "rendezvous/control/listener.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/unit/control/job.h"
#include "tests/unit/control/loop.h"
#include "tests/unit/control/orders_ignored.h"

namespace ddprun {
namespace {

/// An agent's client, and the socket of a coordinator that has let it in and says no more.
struct SilentCoordinator : private OrdersIgnored {
  Loop loop;
  Fd coordinator;
  std::optional<CoordinatorLost> how_lost;
  std::unique_ptr<CoordinatorClient> client;

  SilentCoordinator() {
    Listening here = listen_ephemeral("127.0.0.1", {});
    REQUIRE(here.socket);
    Fd agent = connect_to("127.0.0.1", port_of(here.socket));
    coordinator = Fd(::accept(here.socket.get(), nullptr, nullptr));
    REQUIRE(coordinator);
    client = CoordinatorClient::create(loop.io, std::move(agent), message::Accepted{}, {}, 500ms,
                                       *this, loop.log);
  }

  void lost(const CoordinatorLost& how) override { how_lost = how; }

  /// All that the agent has said; the errno of the end, 0 for an orderly one. With `wait`, until
  /// the end.
  std::pair<std::string, std::optional<int>> read_all(bool wait) const {
    std::string all;
    while (true) {
      pollfd ready{coordinator.get(), POLLIN, 0};
      if (::poll(&ready, 1, wait ? 10'000 : 0) == 0) {
        return {all, std::nullopt};
      }
      char bytes[4096];
      const ssize_t got = ::recv(coordinator.get(), bytes, sizeof bytes, 0);
      if (got <= 0) {
        return {all, got == 0 ? 0 : errno};
      }
      all.append(bytes, static_cast<std::size_t>(got));
    }
  }
};

}  // namespace

TEST_CASE("An agent that takes a silent coordinator for lost says that it lives") {
  SilentCoordinator job;
  job.loop.until([&] { return job.how_lost.has_value(); });
  CHECK_FALSE(job.how_lost->closed);
  const auto [said, end] = job.read_all(false);
  CHECK_FALSE(end);  // held until the workers are gone
  CHECK_THAT(said, Catch::EndsWith(encode(message::Leaving{})));
  job.client.reset();
  // Not an orderly end, which is that of a process that died: the word may not have arrived.
  CHECK(job.read_all(true).second == ECONNRESET);
}

}  // namespace ddprun
