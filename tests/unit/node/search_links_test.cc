// How soon the search tries the next address, and how it finds the host on this machine's networks.
#include <catch2/catch.hpp>

#include "tests/unit/node/search_story.h"

using namespace ddprun;
using namespace ddprun::story;
using State = LeaderSearch::State;

TEST_CASE("The first tries are short: people wait for the reason, and for a name's next address") {
  Story story({kFirst}, false);
  const Instant begun = story.now;
  story.step(search::Resolved{{{"10.0.0.8"}, {"10.0.0.9"}}, false});
  story.wait();
  CHECK(story.now == begun + 1s);
  CHECK(story.wait().connects("10.0.0.9"));
  story.wait();
  CHECK(story.now < begun + 2200ms);
  CHECK(story.find<LogLine>() != nullptr);
  story.wait().step(search::Resolved{{{"10.0.0.8"}}, false});
  CHECK(story.left() == 3s);
}

TEST_CASE("Where no address of the endpoint answers, its host is asked for on the networks here") {
  Story story({kFirst}, false);
  story.step(kOther).wait();
  REQUIRE(story.find<search::AskLinks>() != nullptr);
  CHECK(story.find<search::AskLinks>()->endpoint == kFirst);
  story.step(search::FoundOnLink{"10.1.0.2"});
  CHECK(story.connects("10.1.0.2"));
  CHECK(story.find<LogLine>()->text.find("its host answers at 10.1.0.2") != std::string::npos);
  story.step(search::FoundOnLink{"10.1.0.2"});  // it is told once
  CHECK(story.actions.empty());
  story.step(search::Connected{});
  REQUIRE(story.find<search::SayHello>() != nullptr);
  CHECK(story.find<search::SayHello>()->hello.node.by_endpoint);
  story.step(kAccepted);
  REQUIRE(story.find<HelloAccepted>() != nullptr);
  CHECK(story.find<HelloAccepted>()->at_endpoint);
}

TEST_CASE("What was found on a network stays an address of the endpoint, whatever its name means") {
  Story story({kFirst}, false);
  story.step(search::Unresolved{"not found"});
  REQUIRE(story.find<search::AskLinks>() != nullptr);
  story.step(search::FoundOnLink{"10.1.0.2"});
  story.step(kRefused).wait();
  CHECK(story.resolves("n1"));
  CHECK(story.step(search::Unresolved{"not found"}).connects("10.1.0.2"));
  story.step(kRefused).wait();
  CHECK(story.step(kOther).connects("10.1.0.2"));
  story.step(kRefused);
  CHECK(story.wait().connects("10.0.0.2"));
}

TEST_CASE("Answers of many strangers do not keep the host's out for good") {
  Story story({kFirst}, false);
  story.step(kOther).wait();
  for (int stranger = 1; stranger <= 20; ++stranger) {
    story.step(search::FoundOnLink{"10.1.1." + std::to_string(stranger)});
  }
  CHECK(story.step(search::FoundOnLink{"10.1.0.2"}).connects("10.1.0.2"));
  CHECK(story.step(search::FoundOnLink{"10.1.1.20"}).actions.empty());
}

TEST_CASE("A refusal from an address that was found on a network ends no search") {
  for (const search::Input& refusal :
       {search::Input(search::OtherVersion{3}),
        search::Input(search::Rejected{message::Rejected{"the token differs", "ask its owner"}})}) {
    Story story({kFirst}, false);
    story.step(kOther).wait();
    story.step(search::FoundOnLink{"10.1.0.2"});
    story.step(search::Connected{}).step(refusal);
    CHECK(story.find<SearchFailed>() == nullptr);
    // It is no address of the endpoint any more.
    CHECK(story.wait().step(search::Resolved{{{"10.0.0.8"}}, false}).connects("10.0.0.8"));
  }
}

TEST_CASE("The networks are asked again at growing pauses, and not for a host that refuses") {
  Story story({kFirst}, false, 600s);
  int asked = 0;
  for (int turn = 0; turn < 600; ++turn) {
    asked += story.find<search::AskLinks>() != nullptr ? 1 : 0;
    story.state() == State::resolving ? story.step(search::Unresolved{"not found"}) : story.wait();
  }
  CHECK(asked >= 5);
  CHECK(asked <= 14);
  Story refused({kFirst}, false);
  refused.step(kOther).step(kRefused);
  CHECK(refused.find<search::AskLinks>() == nullptr);
  Story second({kFirst, kSecond}, false);
  second.step(kOther).step(kRefused).wait();
  REQUIRE(second.resolves("n2"));
  second.step(search::Unresolved{"not found"});
  CHECK(second.find<search::AskLinks>() == nullptr);
}
