#include "rendezvous/control/peer_server.h"

#include <cerrno>
#include <string>
#include <vector>

#include "rendezvous/control/listener.h"
#include "rendezvous/control/local_endpoints.h"
#include "tests/support/free_port.h"
#include "tests/unit/control/loop.h"

using namespace ddprun;

namespace {

/// An address that no machine has (RFC 5737).
constexpr char kElsewhere[] = "192.0.2.1";

std::shared_ptr<PeerServer> open_reception(Loop& loop, std::vector<Endpoint> endpoints) {
  auto reception = PeerServer::create(
      loop.io, std::move(endpoints), [](const message::Message&, bool) { return std::nullopt; }, {},
      loop.log);
  bool open = false;
  reception->open([&](const Result<void>& opened) {
    REQUIRE(opened);
    open = true;
  });
  loop.until([&] { return open; });
  return reception;
}

}  // namespace

TEST_CASE("An endpoint is this machine's by its address, or by what its name means") {
  Loop loop;
  std::vector<bool> own;
  resolve_local(loop.io,
                {{"127.0.0.1", 1}, {"localhost", 2}, {kElsewhere, 3}, {"no-such.invalid", 4}}, 5s,
                [&](const std::vector<bool>& found) { own = found; });
  loop.until([&] { return !own.empty(); });
  CHECK(own == std::vector<bool>{true, true, false, false});
}

TEST_CASE("A port that the system chooses is none that the endpoints name") {
  std::vector<Endpoint> endpoints;
  for (int port = 1; port < 65'536; port += 2) {
    endpoints.push_back({kElsewhere, static_cast<std::uint16_t>(port)});
  }
  std::vector<Listening> all;
  for (int i = 0; i < 3; ++i) {
    all.push_back(listen_ephemeral("127.0.0.1", endpoints));
    REQUIRE(all.back().socket);
    CHECK(port_of(all.back().socket) % 2 == 0);
  }
}

TEST_CASE("An agent is found at its own one of the further endpoints, or where the system says") {
  Loop loop;
  const std::uint16_t port = test::free_port();
  const std::vector<Endpoint> endpoints{{"127.0.0.1", test::free_port()}, {"127.0.0.1", port}};
  const auto first = open_reception(loop, endpoints);
  CHECK(first->port() == port);
  CHECK(first->at_endpoint());
  const auto second = open_reception(loop, endpoints);
  CHECK(second->port() != port);
  CHECK_FALSE(second->at_endpoint());
  CHECK(loop.logged("cannot listen at 127.0.0.1:" + std::to_string(port) +
                    ", an endpoint on this machine: Address already in use"));
}

TEST_CASE("An endpoint that is the first one by another name is left to the coordinator") {
  Loop loop;
  const std::uint16_t port = test::free_port();
  const auto server = open_reception(loop, {{"127.0.0.1", port}, {"localhost", port}});
  CHECK(server->port() != port);
  CHECK(listen_at("127.0.0.1", port).socket);
}

TEST_CASE("At a literal loopback endpoint an agent listens at that address") {
  for (const std::string address : {"::1", "127.0.0.1", "127.0.0.5"}) {
    INFO(address);
    Loop loop;
    if (!listen_at(address, 0).socket) {
      continue;  // this machine has no IPv6
    }
    const std::uint16_t port = test::free_port();
    CHECK(own_addresses(address) == std::vector{address});
    const auto server = open_reception(loop, {{address, port}});
    CHECK(listen_at(address, server->port()).errno_value == EADDRINUSE);
    server->listen_at_first_endpoint();
    CHECK(listen_at(address, port).errno_value == EADDRINUSE);
    server->leave_first_endpoint();
    CHECK(listen_at(address, port).socket);
  }
}

TEST_CASE("The port of the first endpoint is taken over when its process ends, and given up") {
  Loop loop;
  // A port that the system hands out could become another process's as soon as it is free.
  const Endpoint endpoint{"127.0.0.1", test::free_port()};
  Listening process = listen_at("127.0.0.1", endpoint.port);
  REQUIRE(process.socket);
  const auto server = open_reception(loop, {endpoint});
  CHECK(server->other_endpoints().size() == 1);
  server->listen_at_first_endpoint();
  CHECK(server->other_endpoints().size() == 1);  // it is still there
  process.socket = Fd();
  loop.until([&] { return server->other_endpoints().empty(); });
  CHECK(listen_at("127.0.0.1", endpoint.port).errno_value == EADDRINUSE);
  server->leave_first_endpoint();
  CHECK(listen_at("127.0.0.1", endpoint.port).socket);
  CHECK(server->other_endpoints().size() == 1);
}
