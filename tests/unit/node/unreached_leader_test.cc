#include "rendezvous/node/unreached_leader.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

Error refused_at(const std::string& where) {
  return {"cannot reach the coordinator: connection refused", where, "other words"};
}

}  // namespace

TEST_CASE("A leader that cannot be reached is told once a minute, each by itself") {
  UnreachedLeader leaders;
  const auto line = leaders.failed(100s, refused_at("10.0.0.1 port 1"));
  REQUIRE(line);
  CHECK(*line ==
        "10.0.0.1 port 1: cannot reach the coordinator: connection refused; check the "
        "network between it and this host");
  CHECK(leaders.failed(103s, refused_at("10.0.0.2 port 1")));
  CHECK_FALSE(leaders.failed(106s, refused_at("10.0.0.1 port 1")));
  CHECK_FALSE(leaders.failed(109s, refused_at("10.0.0.2 port 1")));
  CHECK(leaders.failed(160s, refused_at("10.0.0.1 port 1")));
  for (int i = 0; i < 100; ++i) {
    CHECK(leaders.failed(161s, refused_at("10.0.1.1 port " + std::to_string(i))));
  }
}

TEST_CASE("At the end a leader is blamed that was tried just now, and no other") {
  UnreachedLeader leaders;
  CHECK(leaders.verdict(100s, 4s).where.empty());
  leaders.failed(100s, refused_at("10.0.0.1 port 1"));
  leaders.failed(102s, refused_at("10.0.0.2 port 1"));
  CHECK(leaders.verdict(106s, 4s).where == "10.0.0.2 port 1");
  const Error later = leaders.verdict(107s, 4s);
  CHECK(later.where.empty());
  CHECK(later.what == "no coordinator of the job was reached, and this node could not become it");
  leaders.service(Error{"etcd refuses", "10.0.0.9:2379", "ask it"});
  CHECK(leaders.verdict(106s, 4s).where == "10.0.0.2 port 1");
  CHECK(leaders.verdict(107s, 4s).what == "etcd refuses");
  leaders.service(std::nullopt);
  CHECK(leaders.verdict(107s, 4s).what == later.what);
}
