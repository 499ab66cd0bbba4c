#include "rendezvous/control/master_address.h"

#include <catch2/catch.hpp>

using namespace ddprun;

TEST_CASE("A node alone has its store on loopback") {
  CHECK(common_address({}) == "127.0.0.1");
}

TEST_CASE("One address that all came by is the address of all, also a loopback one (I-4)") {
  CHECK(common_address({"::1", "::1"}) == "::1");
  CHECK(common_address({"127.0.0.1"}) == "127.0.0.1");
  CHECK(common_address({"10.0.0.1", "10.0.0.1"}) == "10.0.0.1");
}

TEST_CASE("An address that others can reach goes before loopback, the more used first") {
  CHECK(common_address({"127.0.0.1", "127.0.0.1", "10.0.0.1"}) == "10.0.0.1");
  CHECK(common_address({"10.0.0.1", "10.1.0.1", "10.1.0.1"}) == "10.1.0.1");
  CHECK(common_address({"10.1.0.1", "10.0.0.1"}) == "10.1.0.1");
  CHECK(common_address({"::1", "fd00::1"}) == "fd00::1");
}
