#include "rendezvous/base/socket.h"

#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <cerrno>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

net::Deadline in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}

struct Listening {
  Fd socket;
  std::uint16_t port = 0;
};

Listening listening() {
  Listening here;
  REQUIRE(net::bind_everywhere(0, here.socket) == 0);
  here.port = net::local_end(here.socket.get()).port();
  REQUIRE(::listen(here.socket.get(), 1) == 0);
  return here;
}

net::Address address_of(const std::string& host, std::uint16_t port) {
  const auto found = net::resolve(host, port);
  REQUIRE(found.has_value());
  return found->front();
}

}  // namespace

TEST_CASE("an address has its usual text, with brackets where it has colons itself") {
  CHECK(address_of("127.0.0.1", 29500).text() == "127.0.0.1:29500");
  CHECK(address_of("::1", 29500).text() == "[::1]:29500");
  CHECK(address_of("::ffff:10.0.0.1", 1).host() == "10.0.0.1");
  CHECK(net::Address().text().empty());
}

TEST_CASE("a name that does not resolve says so") {
  const auto found = net::resolve("no-such-host.invalid", 1);
  REQUIRE_FALSE(found.has_value());
  CHECK(found.error().what.starts_with("the host name does not resolve ("));
  CHECK(found.error().where == "no-such-host.invalid");
}

TEST_CASE("who listens everywhere is reached, and both ends see each other's address") {
  const Listening here = listening();
  Fd client;
  REQUIRE(net::try_connect(address_of("127.0.0.1", here.port), in(5s), client) == 0);
  REQUIRE(net::wait_ready(here.socket.get(), POLLIN, in(5s)));
  const Fd server(::accept4(here.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(server);
  CHECK(net::far_end(client.get()).port() == here.port);
  CHECK(net::far_end(server.get()).host() == "127.0.0.1");  // though the socket may be an IPv6 one
  CHECK(net::far_end(server.get()).port() == net::local_end(client.get()).port());
}

TEST_CASE("a port that is taken cannot be listened at twice, and one that nobody has refuses") {
  Listening here = listening();
  Fd second;
  if (net::bind_everywhere(here.port, second) == 0) {
    CHECK(::listen(second.get(), 1) != 0);
    second.reset();
  }
  here.socket.reset();
  Fd client;
  CHECK(net::try_connect(address_of("127.0.0.1", here.port), in(5s), client) == ECONNREFUSED);
  CHECK_FALSE(client);
}

TEST_CASE("a wait ends at its deadline, and at once when that has passed") {
  const Listening here = listening();
  CHECK_FALSE(net::wait_ready(here.socket.get(), POLLIN, in(0ms)));
  CHECK_FALSE(net::wait_ready(here.socket.get(), POLLIN, in(20ms)));
  CHECK(net::milliseconds_left(in(-1s)) == 0);
  CHECK(net::milliseconds_left(in(10s)) > 9'000);
  CHECK(net::milliseconds_left(net::Deadline::max()) == 3'600'000);
}

TEST_CASE("loopback is what begins with 127, and ::1") {
  CHECK(net::is_loopback("127.0.0.1"));
  CHECK(net::is_loopback("127.1.2.3"));
  CHECK(net::is_loopback("::1"));
  CHECK_FALSE(net::is_loopback("10.127.0.1"));
  CHECK_FALSE(net::is_loopback(""));
}

TEST_CASE("A socket is bound at one numeric address, and at none for a text that is none") {
  Fd socket;
  REQUIRE(net::bind_at("127.0.0.1", 0, socket) == 0);
  CHECK(net::local_end(socket.get()).host() == "127.0.0.1");
  CHECK(net::local_end(socket.get()).port() != 0);
  Fd none;
  CHECK(net::bind_at("localhost", 0, none) == EINVAL);
  CHECK(net::bind_at("1:2", 0, none) == EINVAL);
  CHECK_FALSE(none);
}
