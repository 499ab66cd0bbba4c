#include "rendezvous/base/endpoint.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

Endpoint read(std::string_view text, int default_port = 29400) {
  const auto endpoint = parse_endpoint(text, default_port);
  INFO(text);
  REQUIRE(endpoint.has_value());
  return *endpoint;
}

}  // namespace

TEST_CASE("An endpoint is a host, or a host and a port") {
  CHECK(read("n1") == Endpoint{"n1", 29400});
  CHECK(read("n1:5") == Endpoint{"n1", 5});
  CHECK(read("n1.cluster_a-b.local:65535") == Endpoint{"n1.cluster_a-b.local", 65535});
  CHECK(read("10.0.0.1:0") == Endpoint{"10.0.0.1", 0});
  CHECK(read("") == Endpoint{"localhost", 29400});
}

TEST_CASE("IPv6 hosts may stand in brackets, and must where a port could be part of them") {
  CHECK(read("[fd00::1]:29500") == Endpoint{"fd00::1", 29500});
  CHECK(read("[::1]") == Endpoint{"::1", 29400});
  CHECK(read("fd00::1") == Endpoint{"fd00::1", 29400});
  CHECK(read("::1:29500") == Endpoint{"::1", 29500});
  CHECK(read("::1:2950") == Endpoint{"::1:2950", 29400});
  CHECK(read("fe80::1%eth0:29500") == Endpoint{"fe80::1%eth0", 29500});
  CHECK(read("[fe80::1%eth0]:1") == Endpoint{"fe80::1%eth0", 1});
}

TEST_CASE("An endpoint reads back from its text") {
  for (const Endpoint& endpoint : {Endpoint{"n1", 1}, Endpoint{"fd00::1", 2}}) {
    CHECK(read(to_text(endpoint)) == endpoint);
  }
  CHECK(to_text({"fd00::1", 2}) == "[fd00::1]:2");
}

TEST_CASE("A bad endpoint is named with what is wrong about it") {
  const auto wrong = [](std::string_view text, int default_port = 29400) {
    const auto endpoint = parse_endpoint(text, default_port);
    REQUIRE(endpoint.has_error());
    CHECK(endpoint.error().where == "endpoint '" + std::string(text) + "'");
    return endpoint.error().what;
  };
  CHECK(wrong("n1:") == "the port '' is not a number from 0 to 65535");
  CHECK(wrong("n1:65536") == "the port '65536' is not a number from 0 to 65535");
  CHECK(wrong("n1:-1") == "the port '-1' is not a number from 0 to 65535");
  CHECK(wrong("n1:000080") == "the port '000080' is not a number from 0 to 65535");
  CHECK(wrong("n1:80x") == "the port '80x' is not a number from 0 to 65535");
  CHECK(wrong(":80") == "the host is missing");
  CHECK(wrong("[]:80") == "the host is missing");
  CHECK(wrong("[::1") == "the bracket of the IPv6 address is not closed");
  CHECK(wrong("[::1]80") == "only :PORT may follow the bracket");
  CHECK(wrong("n1:80:90") == "it has several colons and is no IPv6 address");
  CHECK(wrong("::1:x") == "the port 'x' is not a number from 0 to 65535");
  CHECK(wrong("n 1:80") == "the host has a character that no host name or address has");
  CHECK(wrong("http://n1") == "it is a URL");
  CHECK(wrong("https://n1:2379") == "it is a URL");
  CHECK(wrong("n1:80,n2:80") == "one endpoint is asked for here, and it has several");
  CHECK(wrong("n1", -1) == "the port is missing");
}
