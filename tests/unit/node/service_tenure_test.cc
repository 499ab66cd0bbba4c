#include "rendezvous/node/service_tenure.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using std::chrono::seconds;

constexpr seconds kLeaderLease{15};

/// A service that answers when the test says so.
struct Story {
  ServiceTenure tenure{{kLeaderLease, seconds(60)}};
  std::vector<tenure::Ask> asked;
  std::vector<tenure::Done> done;

  void step(Instant now, tenure::Input input) {
    for (tenure::Action& action : tenure.step(now, std::move(input))) {
      if (auto* ask = std::get_if<tenure::Ask>(&action)) {
        asked.push_back(std::move(*ask));
      } else {
        done.push_back(std::get<tenure::Done>(std::move(action)));
      }
    }
  }
  /// The oldest question.
  void answer(Instant now, Result<ServiceAnswer> answer) {
    REQUIRE_FALSE(asked.empty());
    const tenure::Ticket ticket = asked.front().ticket;
    asked.erase(asked.begin());
    step(now, tenure::Answered{ticket, std::move(answer)});
  }
  /// Asks at 10 s, and leads at 12 s.
  void lead() {
    step(seconds(10), tenure::LeadWished{1, {}, {Term{1}, VoterId{7}, JobInstance{3}, {"a"}, 1}});
    answer(seconds(11), ServiceAnswer{true, 0, "5", false});
    answer(seconds(12), ServiceAnswer{true, 40, {}, false});
  }
  /// Leads, and is given the first state as wish 2 at 13 s: the write that it asks for then.
  ServiceTransaction lead_and_write(const char* state) {
    lead();
    step(seconds(13), tenure::StateGiven{2, state});
    answer(seconds(13), ServiceAnswer{true, 0, "6", false});
    return std::get<ServiceTransaction>(asked.at(0).question);
  }
};

const Error kAway{"it does not answer", {}, {}};

}  // namespace

TEST_CASE("An entry whose answer got lost goes with its lease, for others to lead") {
  Story story;
  story.step(seconds(10),
             tenure::LeadWished{1, {}, {Term{1}, VoterId{7}, JobInstance{3}, {"a"}, 1}});
  story.answer(seconds(11), ServiceAnswer{true, 0, "5", false});
  story.answer(seconds(12), kAway);
  REQUIRE(story.done.size() == 1);
  CHECK_FALSE(story.done.front().done);
  REQUIRE(story.asked.size() == 1);
  CHECK(std::get<RevokeLease>(story.asked.front().question).lease == "5");
}

TEST_CASE("A lease proves from the question on, and not from its answer") {
  Story story;
  CHECK(story.tenure.leads_until() == Instant{});
  story.lead();
  REQUIRE(story.done.size() == 1);
  CHECK(*story.done[0].done);
  const Instant first = story.tenure.leads_until();
  CHECK(first <= seconds(10) + kLeaderLease);
  story.step(seconds(13), tenure::TimePassed{});
  REQUIRE(std::holds_alternative<RenewLease>(story.asked.at(0).question));
  CHECK(story.tenure.leads_until() == first);
  story.answer(seconds(14), ServiceAnswer{true, 0, {}, false});
  CHECK(story.tenure.leads_until() == first + seconds(3));
  // It renews again only once it has seen that its entry is there.
  CHECK_FALSE(story.tenure.next_deadline());
  story.answer(seconds(15), ServiceAnswer{true, 41, {}, false});
  CHECK(story.tenure.next_deadline() == seconds(16));
}

TEST_CASE("A service that does not answer takes nothing from a lease, and adds nothing") {
  Story story;
  story.lead();
  const Instant first = story.tenure.leads_until();
  story.step(seconds(13), tenure::TimePassed{});
  story.answer(seconds(16), kAway);
  story.answer(seconds(19), kAway);
  CHECK(story.tenure.leads_until() == first);
  CHECK(story.tenure.next_deadline() == seconds(20));
}

TEST_CASE("Who was replaced, or removed, leads no more at once") {
  const bool renewed = GENERATE(false, true);
  Story story;
  story.lead();
  story.step(seconds(13), tenure::TimePassed{});
  story.answer(seconds(14), ServiceAnswer{renewed, 0, {}, false});
  if (renewed) {
    story.answer(seconds(14), ServiceAnswer{});  // the entry is another's
  }
  CHECK(story.tenure.leads_until() == Instant{});
  CHECK_FALSE(story.tenure.next_deadline());
  story.step(seconds(15), tenure::StateGiven{2, "state"});
  CHECK(story.done.back().wish == 2);
  CHECK_FALSE(*story.done.back().done);
}

TEST_CASE("A state is written on the condition that the leader is the same") {
  Story story;
  const ServiceTransaction write = story.lead_and_write("state");
  CHECK(write.leader_is == 40);
  CHECK(write.state == "state");
  CHECK(write.state_lease == "6");
  // Its lease may have ended meanwhile: another one is asked for, and the same is written.
  story.answer(seconds(13), ServiceAnswer{false, 0, {}, true});
  story.answer(seconds(13), ServiceAnswer{true, 0, "8", false});
  CHECK(std::get<ServiceTransaction>(story.asked.at(0).question).state_lease == "8");
  story.answer(seconds(13), ServiceAnswer{true, 44, {}, false});
  CHECK(*story.done.back().done);
}

TEST_CASE("A write that renews the leader's lease proves as a renewal does") {
  const bool renews = GENERATE(false, true);
  Story story;
  story.lead_and_write("state");
  const Instant before = story.tenure.leads_until();
  story.answer(seconds(17), ServiceAnswer{true, 44, {}, false, 0, 0, renews});
  // From the question, which was asked three seconds after that for the leader's lease.
  CHECK(story.tenure.leads_until() == before + (renews ? seconds(3) : seconds(0)));
}

TEST_CASE("A state replaces the one before it, and no newer one") {
  Story story;
  CHECK(story.lead_and_write("first").state_is == 0);
  story.answer(seconds(13), ServiceAnswer{true, 44, {}, false});
  // It is not known whether that one was done: it may be done late, after those that follow.
  story.step(seconds(14), tenure::StateGiven{3, "second"});
  story.answer(seconds(17), kAway);
  story.step(seconds(17), tenure::StateGiven{4, "third"});
  CHECK(std::get<ServiceTransaction>(story.asked.at(0).question).state_is == 44);
  // It was, and this process leads still: the newest is written in its place.
  story.answer(seconds(18), ServiceAnswer{false, 0, {}, false, 40, 45});
  const auto& again = std::get<ServiceTransaction>(story.asked.at(0).question);
  CHECK(again.state_is == 45);
  CHECK(again.state == "third");
  CHECK(story.done.back().wish == 3);
  story.answer(seconds(18), ServiceAnswer{true, 46, {}, false});
  CHECK(story.done.back().wish == 4);
  CHECK(*story.done.back().done);
}

TEST_CASE("A write that the service refuses for no reason is not sent again and again") {
  Story story;
  (void)story.lead_and_write("state");
  story.answer(seconds(13), ServiceAnswer{false, 0, {}, false, 40, 0});
  CHECK(story.asked.empty());
  CHECK_FALSE(story.done.back().done);
  CHECK(story.tenure.leads_until() != Instant{});
}

TEST_CASE("Who takes over keeps the state by a lease of its own") {
  Story story;
  ServiceView seen;
  seen.state = "state";
  seen.state_revision = 31;
  story.step(seconds(10),
             tenure::LeadWished{1, seen, {Term{2}, VoterId{7}, JobInstance{3}, {}, 1}});
  story.answer(seconds(10), ServiceAnswer{true, 0, "5", false});
  story.answer(seconds(10), ServiceAnswer{true, 40, {}, false});
  story.answer(seconds(10), ServiceAnswer{true, 0, "6", false});
  const auto& write = std::get<ServiceTransaction>(story.asked.at(0).question);
  CHECK(write.state == "state");
  CHECK(write.state_is == 31);
  CHECK(write.state_lease == "6");
  story.answer(seconds(10), ServiceAnswer{true, 41, {}, false});
  CHECK(story.done.size() == 1);  // nobody waits for it
  CHECK(story.tenure.next_deadline() == seconds(11));
}

TEST_CASE("Of two states that wait for a lease the newer one is written") {
  Story story;
  story.lead();
  story.step(seconds(13), tenure::StateGiven{0, "found"});
  story.step(seconds(13), tenure::StateGiven{2, "own"});
  REQUIRE(story.asked.size() == 1);
  story.answer(seconds(13), ServiceAnswer{true, 0, "6", false});
  REQUIRE(story.asked.size() == 1);
  CHECK(std::get<ServiceTransaction>(story.asked.at(0).question).state == "own");
  story.answer(seconds(13), ServiceAnswer{true, 44, {}, false});
  CHECK(story.done.back().wish == 2);
  CHECK(*story.done.back().done);
}

TEST_CASE("Who resigns removes its own entry alone, and what comes late changes nothing") {
  Story story;
  story.lead();
  story.step(seconds(13), tenure::TimePassed{});
  story.step(seconds(13), tenure::ResignWished{3, false});
  CHECK(story.tenure.leads_until() == Instant{});
  story.answer(seconds(14), ServiceAnswer{true, 0, {}, false});  // to the renewal
  CHECK(story.tenure.leads_until() == Instant{});
  const auto& remove = std::get<ServiceTransaction>(story.asked.at(0).question);
  CHECK(remove.leader_is == 40);
  CHECK(remove.erases_leader);
  CHECK_FALSE(remove.erases_job);
  story.answer(seconds(15), kAway);
  CHECK(story.done.back().wish == 3);
  CHECK_FALSE(story.done.back().done);
}

}  // namespace ddprun
