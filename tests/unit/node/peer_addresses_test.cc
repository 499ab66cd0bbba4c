#include "rendezvous/node/peer_addresses.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

using Addresses = std::vector<std::string>;

}  // namespace

TEST_CASE("An agent is called first at the address by which it came") {
  const Addresses told{"172.17.0.1", "10.0.0.2", "fd00::2"};
  CHECK(seen_first(told, "10.0.0.2") == Addresses{"10.0.0.2", "172.17.0.1", "fd00::2"});
  CHECK(seen_first(told, "192.0.2.7").front() == "192.0.2.7");
  CHECK(seen_first(told, "192.0.2.7").size() == 4);
  CHECK(seen_first(Addresses(16, "10.0.0.3"), "192.0.2.7").size() == 16);
}

TEST_CASE("An address that means another host elsewhere is none by which an agent is called") {
  const Addresses told{"10.0.0.2"};
  for (const char* const seen : {"", "127.0.0.1", "::1", "fe80::1%eth0"}) {
    CHECK(seen_first(told, seen) == told);
  }
  CHECK(seen_first({"127.0.0.1"}, "127.0.0.1") == Addresses{"127.0.0.1"});
}

TEST_CASE("Another host is never called at an address of this one") {
  const Addresses own{"172.17.0.1", "10.0.0.1"};
  CHECK(addresses_to_try({"172.17.0.1", "10.0.0.2"}, own) == Addresses{"10.0.0.2"});
  CHECK(addresses_to_try({"10.0.0.2"}, {}) == Addresses{"10.0.0.2"});
  // One without any other address is on this host.
  CHECK(addresses_to_try({"172.17.0.1", "10.0.0.1"}, own) == own);
  CHECK(addresses_to_try({}, own).empty());
}
