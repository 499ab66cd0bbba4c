#include "rendezvous/protocol/voter_addresses.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

VoterAddress at(std::uint64_t voter) {
  return {VoterId{voter}, "n" + std::to_string(voter), {"10.0.0.1"}, 4711};
}

}  // namespace

TEST_CASE("An agent is away once its last connection has ended, and is forgotten later") {
  VoterAddresses addresses;
  addresses.add(at(1));
  addresses.add(at(1));
  addresses.went(VoterId{1}, 10s);
  CHECK(addresses.absent().empty());
  addresses.went(VoterId{1}, 20s);
  CHECK(addresses.absent() == std::vector{VoterId{1}});
  addresses.forget(20s, {});
  CHECK(addresses.find(VoterId{1}) != nullptr);
  addresses.forget(21s, {});
  CHECK(addresses.find(VoterId{1}) == nullptr);
}

TEST_CASE("An agent without a vote is not listed, whatever another node says of it") {
  VoterAddresses addresses({at(0), at(2)}, 0s);
  CHECK(addresses.all() == std::vector{at(2)});
  addresses.learn(at(0), 0s);
  CHECK(addresses.all() == std::vector{at(2)});
  // A node without a vote leaves: it was never counted.
  addresses.went(VoterId{0}, 1s);
  CHECK(addresses.absent() == std::vector{VoterId{2}});
}

TEST_CASE("An agent that was refused is forgotten, unless it is here otherwise or votes") {
  VoterAddresses addresses;
  const Configuration voters{{}, {VoterId{3}}};
  for (const std::uint64_t voter : {1, 2, 2, 3}) {
    addresses.add(at(voter));
  }
  for (const std::uint64_t voter : {1, 2, 3, 4}) {
    addresses.refused(VoterId{voter}, 5s, {&voters});
  }
  CHECK(addresses.all() == std::vector{at(2), at(3)});
  CHECK(addresses.absent() == std::vector{VoterId{3}});
}

TEST_CASE("What ends for an agent that is away already changes nothing") {
  VoterAddresses addresses;
  addresses.learn(at(3), 0s);
  addresses.went(VoterId{3}, 5s);
  CHECK(addresses.absent() == std::vector{VoterId{3}});
  addresses.forget(1s, {});
  CHECK(addresses.all().empty());
}
