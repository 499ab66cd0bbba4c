#include "rendezvous/node/service_writer.h"

#include <catch2/catch.hpp>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr NodeId kSession{1};
const Error kNoAnswer{"the service does not answer", {}, {}};

message::VoterState state_of(std::uint32_t number, bool ends = false) {
  message::VoterState state;
  state.replicated.configuration.number = ConfigurationNumber{number};
  state.replicated.configuration.voters = {kServiceVoter};
  state.replicated.ends = ends;
  return state;
}

/// What the coordinator is told of what the service has kept.
std::vector<ConfigurationNumber> acknowledged(const ServiceVoterActions& actions) {
  std::vector<ConfigurationNumber> all;
  for (const auto& action : actions) {
    if (const auto* tell = std::get_if<TellLeader>(&action)) {
      const auto& told = std::get<SessionTold>(tell->input);
      all.push_back(std::get<message::StateKept>(told.message).configuration);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("A state is acknowledged once nobody else can lead for a heartbeat timeout") {
  ServiceWriter writer(kSession, seconds(3));
  CHECK(acknowledged(writer.take(state_of(1))).empty());
  // The service was away for long, and is back for this question alone.
  CHECK(acknowledged(writer.committed(seconds(10), seconds(12), true)).empty());
  REQUIRE(writer.next_deadline());
  CHECK(*writer.next_deadline() < seconds(11));
  // The lease is renewed meanwhile.
  const auto told = acknowledged(writer.time_passed(*writer.next_deadline(), seconds(24)));
  REQUIRE(told.size() == 1);
  CHECK(told[0] == state_of(1).replicated.configuration.number);
  CHECK_FALSE(writer.next_deadline());
}

TEST_CASE("A state that is kept by who leads no more is not acknowledged") {
  ServiceWriter writer(kSession, seconds(3));
  (void)writer.take(state_of(1));
  CHECK(acknowledged(writer.committed(seconds(10), seconds(12), true)).empty());
  CHECK(acknowledged(writer.time_passed(seconds(11), Instant{})).empty());
  CHECK_FALSE(writer.next_deadline());
}

TEST_CASE("The end of a job is told to who is here, also where it cannot be kept") {
  const bool leads = GENERATE(false, true);
  ServiceWriter writer(kSession, seconds(3));
  (void)writer.take(state_of(1, true));
  // Its lease is over by its own clock: a service that is silent says nothing else.
  const Instant leads_until = leads ? seconds(9) : Instant{};
  const auto told = acknowledged(writer.committed(seconds(10), leads_until, kNoAnswer));
  CHECK(told.size() == (leads ? 1U : 0U));
  // Without it the newest state is written again, until another leads.
  CHECK(writer.next_deadline().has_value() != leads);
}

TEST_CASE("What it means that a state is not kept depends on whether the job goes on") {
  const bool ends = GENERATE(false, true);
  ServiceWriter writer(kSession, seconds(3));
  (void)writer.take(state_of(1, ends));
  const auto actions = writer.committed(seconds(10), seconds(12), kNoAnswer);
  const auto* line = std::get_if<LogLine>(&actions.front());
  REQUIRE(line != nullptr);
  const std::string why = "the service does not answer; ";
  CHECK(line->text.starts_with(why + (ends ? "the job has ended, but its record stays there"
                                           : "no new world begins before it has kept")));
}

TEST_CASE("What came while a state was on its way goes with the next") {
  ServiceWriter writer(kSession, seconds(3));
  CHECK(writer.take(state_of(1)).size() == 1);
  CHECK(writer.take(state_of(2)).empty());
  CHECK(writer.take(state_of(3)).empty());
  const auto first = writer.committed(seconds(10), seconds(20), true);
  REQUIRE(acknowledged(first).size() == 1);
  CHECK(number(acknowledged(first)[0]) == 1);
  const auto second = acknowledged(writer.committed(seconds(10), seconds(20), true));
  REQUIRE(second.size() == 1);
  CHECK(number(second[0]) == 3);
}

}  // namespace ddprun
