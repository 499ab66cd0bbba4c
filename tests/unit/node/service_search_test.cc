#include "rendezvous/node/service_search.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// A node that asks each second, and what it has said since the last step.
struct Story {
  ServiceSearch search;
  std::vector<service_search::Action> actions;
  unsigned number = 0;  ///< of the search

  void step(Instant now, service_search::Input input) {
    actions = search.step(now, std::move(input));
  }
  void start(Instant now, std::optional<DeadLeader> dead = std::nullopt) {
    NodeDescription self;
    self.voter = VoterId{7};
    step(now, service_search::Started{dead, self, JobInstance{3}, 1s});
    number = std::get<service_search::ReadService>(actions.at(0)).search;
  }
  void view(Instant now, Result<ServiceView> view) {
    step(now, service_search::Viewed{number, std::move(view)});
  }
  template <class Kind>
  [[nodiscard]] const Kind* find() const {
    for (const auto& action : actions) {
      if (const auto* found = std::get_if<Kind>(&action)) {
        return found;
      }
    }
    return nullptr;
  }
  /// What Node is told of the service; null: nothing.
  [[nodiscard]] const ServiceTrouble* trouble() const {
    const auto* told = find<service_search::TellNode>();
    return told != nullptr ? std::get_if<ServiceTrouble>(&told->input) : nullptr;
  }
  /// The service lets it lead at `at`, and it searches again at `lost`.
  void lead(Instant at, Instant lost) {
    start(at);
    view(at, ServiceView{});
    const auto* tries = find<service_search::TryToLead>();
    REQUIRE(tries != nullptr);
    step(at, service_search::Tried{tries->seen, tries->self, true});
    step(at, service_search::Stopped{});
    start(lost);
  }
};

/// The entry of that voter, of that term.
ServiceView led_by(VoterId voter, Term term) {
  ServiceView view;
  LeaderRecord leader;
  leader.voter = voter;
  leader.term = term;
  view.leader = leader;
  return view;
}

const Error kRefuses{"it refuses", "etcd", "look there"};

}  // namespace

TEST_CASE("The entry of a leader that is dead is replaced, and that of another one is followed") {
  Story story;
  const DeadLeader dead{Term{2}, VoterId{5}};
  story.start(Instant(0s), dead);
  story.view(Instant(0s), led_by(VoterId{5}, Term{2}));
  CHECK(story.find<service_search::TryToLead>() != nullptr);
  // Somebody has removed all entries, and a new agent has begun at the first term.
  story.start(Instant(1s), dead);
  story.view(Instant(1s), led_by(VoterId{9}, Term{1}));
  CHECK(story.find<service_search::TryToLead>() == nullptr);
  const auto* told = story.find<service_search::TellNode>();
  REQUIRE(told != nullptr);
  CHECK(std::get<CalledByLeader>(told->input).call.term == Term{1});
}

TEST_CASE("Who has led for a moment only leaves the lead to others for a while") {
  Story story;
  SECTION("and then tries again") {
    story.lead(10s, 24s);
    story.view(24s, ServiceView{});
    CHECK(story.find<service_search::TryToLead>() == nullptr);
    REQUIRE(story.search.next_deadline() == Instant(25s));
    story.step(25s, service_search::TimePassed{});
    CHECK(story.find<service_search::ReadService>() != nullptr);
    story.view(29s, ServiceView{});
    CHECK(story.find<service_search::TryToLead>() != nullptr);
  }
  SECTION("but not who has led for long") {
    story.lead(10s, 1000s);
    story.view(1000s, ServiceView{});
    CHECK(story.find<service_search::TryToLead>() != nullptr);
  }
}

TEST_CASE("A refusal is told to people once a minute, and to Node each time") {
  Story story;
  story.start(10s);
  int told = 0;
  for (Instant at = 10s; at < 70s; at += 1s) {
    story.view(at, kRefuses);
    REQUIRE(story.trouble() != nullptr);
    CHECK(story.trouble()->why->what == "it refuses");
    told += story.find<LogLine>() != nullptr ? 1 : 0;
  }
  CHECK(told == 1);
  story.view(70s, kRefuses);
  CHECK(story.find<LogLine>() != nullptr);
}

TEST_CASE("Why a node may not lead outlasts answers that it can read") {
  Story story;
  story.start(10s);
  story.view(10s, ServiceView{});
  const auto tries = *story.find<service_search::TryToLead>();
  story.step(10s, service_search::Tried{tries.seen, tries.self, kRefuses});
  REQUIRE(story.trouble() != nullptr);
  story.view(11s, ServiceView{});  // readable
  CHECK(story.trouble() == nullptr);
  story.view(12s, Error{"it is silent", {}, {}});
  REQUIRE(story.trouble() != nullptr);
  story.view(13s, ServiceView{});
  CHECK(story.trouble() == nullptr);  // it may still not lead
  story.step(13s, service_search::Tried{tries.seen, tries.self, false});
  REQUIRE(story.trouble() != nullptr);
  CHECK_FALSE(story.trouble()->why);
}
