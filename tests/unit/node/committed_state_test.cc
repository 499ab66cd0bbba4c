#include "rendezvous/node/committed_state.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

message::VoterAddress at_port(VoterId voter, std::uint16_t port) {
  return {voter, "node", {"10.0.0.1"}, port};
}

message::VoterState some_state() {
  message::VoterState state;
  state.replicated.term = Term{4};
  state.replicated.attempt = AttemptNumber{7};
  state.replicated.configuration = {make_configuration(Term{4}, VoterId{9}, 1), {kServiceVoter}};
  state.nodes = {at_port(VoterId{9}, 1), at_port(VoterId{11}, 2)};
  return state;
}

}  // namespace

TEST_CASE("Nothing was committed to a service that has nothing") {
  const auto read = committed_state("");
  REQUIRE(read.has_value());
  CHECK_FALSE(read->has_value());
}

TEST_CASE("A committed state has what was told after it") {
  std::string frames = encode(some_state());
  frames += encode(message::MoreNodes{{at_port(VoterId{11}, 3), at_port(VoterId{13}, 4)}});
  message::Story story;
  story.attempt = AttemptNumber{8};
  story.so_far.attempts = 9;
  frames += encode(story);
  const auto read = committed_state(frames);
  REQUIRE(read.has_value());
  REQUIRE(read->has_value());
  const message::VoterState& state = **read;
  CHECK(state.replicated.attempt == AttemptNumber{8});
  CHECK(state.so_far.attempts == 9);
  REQUIRE(state.nodes.size() == 3);
  CHECK(state.nodes[1] == at_port(VoterId{11}, 3));
  CHECK(state.nodes[2] == at_port(VoterId{13}, 4));
  CHECK(state.replicated.configuration.voters == std::vector{kServiceVoter});
}

TEST_CASE("Bytes that no coordinator commits are an error, whatever they are") {
  const std::string good = encode(some_state());
  const std::string story = encode(message::Story{});
  for (const std::string& bytes : {std::string("x"), good.substr(0, good.size() - 1), story,
                                   good + encode(message::Leaving{}), good + "12345678"}) {
    CHECK_FALSE(committed_state(bytes).has_value());
  }
}

}  // namespace ddprun
