#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "tests/unit/node/search_story.h"

using namespace ddprun;
using namespace ddprun::story;
using namespace std::chrono_literals;  // allowed: literals alone, within tests
using State = LeaderSearch::State;

namespace {

/// Of an agent that follows a coordinator at these addresses.
search::Redirected names(std::vector<std::string> addresses, std::uint16_t port = 30'000) {
  search::Redirected answer;
  answer.moved.addresses = std::move(addresses);
  answer.moved.port = port;
  return answer;
}

}  // namespace

// --- As host --------------------------------------------------------------------------------

TEST_CASE("The agent at the only endpoint binds it, on loopback alone where that is what it says") {
  Story story({kFirst});
  CHECK(story.resolves("n1"));
  story.step(kOwn);
  REQUIRE(story.find<search::Bind>() != nullptr);
  CHECK(story.find<search::Bind>()->address.empty());
  story.step(search::Bound{29400});
  REQUIRE(story.find<search::HostEndpoint>() != nullptr);
  CHECK(story.find<search::HostEndpoint>()->bound == Endpoint{"10.0.0.1", 29400});
  CHECK(story.state() == State::over);

  Story here({{"localhost", 0}});
  here.step(search::Resolved{{{"127.0.0.1", true}, {"::1", true}}, true});
  REQUIRE(here.find<search::Bind>() != nullptr);
  CHECK(here.find<search::Bind>()->address == "127.0.0.1");
  Story named({kFirst});  // as Debian's /etc/hosts has it
  named.step(search::Resolved{{{"127.0.1.1", true}}, false});
  CHECK(named.find<search::Bind>()->address.empty());
}

TEST_CASE("An agent at the first endpoint asks each other one before it binds, a second at most") {
  Story story({kFirst, kSecond, {"n3", 1}});
  story.step(kOwn);
  CHECK(story.decides().asks_elsewhere());
  REQUIRE(story.resolves("n2"));
  story.greet(kOther);
  SECTION("they answer at once") {
    const auto answer = GENERATE(0, 1, 2, 3, 4, 5);
    const std::vector<search::Input> answers{kRefused,  kClosed,  kKnowsNobody,
                                             kRejected, kUnknown, search::OtherVersion{99}};
    story.step(answers[static_cast<std::size_t>(answer)]);
    CHECK(story.now == Instant(100s));
  }
  SECTION("they say nothing") {
    CHECK(story.left() == 1s);
    story.wait();
  }
  REQUIRE(story.resolves("n3"));
  CHECK(story.left() == 1s);
  story.wait();  // nor does the name service
  REQUIRE(story.resolves("n1"));
  CHECK_FALSE(story.decides().asks_elsewhere());
  CHECK(story.step(kOwn).find<search::Bind>() != nullptr);
}

TEST_CASE("An agent at the first endpoint follows the coordinator that another endpoint has") {
  Story story({kFirst, kSecond});
  story.step(kOwn).greet(kOther).step(kAccepted);
  REQUIRE(story.find<HelloAccepted>() != nullptr);
  CHECK(story.find<HelloAccepted>()->leader == "10.0.0.2:29400");
  CHECK_FALSE(story.find<HelloAccepted>()->at_endpoint);
  CHECK(story.state() == State::over);
}

TEST_CASE("Who names the endpoint of the one that asks does not know that the job was lost there") {
  search::Redirected ours = names({"10.0.0.1"}, 29400);
  ours.own = {"10.0.0.1"};
  Story asks({kFirst, kSecond});
  asks.step(kOwn).greet(kOther).step(ours);
  CHECK(asks.resolves("n1"));
  Story other({kSecond});  // it does not host: there the coordinator may be
  other.greet(kOther).step(ours);
  CHECK(other.connects("10.0.0.1"));
}

TEST_CASE("A port that is taken may be a coordinator's: the agent knocks there, on loopback, too") {
  Story story({kFirst});
  story.step(kOwn).step(search::BindFailed{true, "in use"});
  REQUIRE(story.connects("10.0.0.1"));
  story.step(kRefused);
  CHECK(story.wait().connects("127.0.0.1"));
  story.step(kRefused);
  CHECK(story.wait().connects("::1"));
  story.step(kRefused);
  CHECK(story.wait().resolves("n1"));
  SECTION("a stranger has it: final") {
    story.step(kOwn).step(search::BindFailed{true, "in use"}).step(search::Connected{}).step(kSsh);
    CHECK(story.failure().find("is taken by another program (an SSH server listens there") !=
          std::string::npos);
  }
  SECTION("nobody answers for 5 s: final") {
    while (story.state() != State::over) {
      REQUIRE(story.now < Instant(106s));
      if (story.state() == State::pausing) {
        story.wait();
      } else if (story.find<search::Resolve>() != nullptr) {
        story.step(kOwn).step(search::BindFailed{true, "in use"});
      } else {
        story.step(kRefused);
      }
    }
    CHECK(story.failure() ==
          "n1 (127.0.0.1) port 29400: port 29400 is taken by another program (connection "
          "refused, tried for 5 s); choose another port");
  }
  SECTION("it cannot be listened at: final") {
    story.step(kOwn).step(search::BindFailed{false, "Permission denied"});
    CHECK(story.failure() ==
          "n1 (10.0.0.1) port 29400: cannot listen here: Permission denied; choose another port, "
          "or another host for the endpoint");
  }
  SECTION("it has no descriptor to listen with: final, and another port would not help") {
    story.step(kOwn).step(search::BindFailed{false, "Too many open files", "raise the limit"});
    CHECK(story.failure() ==
          "n1 (10.0.0.1) port 29400: cannot listen here: Too many open files; raise the limit");
  }
}

TEST_CASE("Who is told to host binds the first endpoint alone, whatever its name means") {
  Story story({kFirst, kSecond}, true);
  REQUIRE(story.resolves("n1"));
  CHECK_FALSE(story.find<search::Resolve>()->ask_names);
  story.step(search::Unresolved{"it is a name"});
  REQUIRE(story.find<search::Bind>() != nullptr);
  SECTION("it hosts") {
    story.step(search::Bound{29400});
    CHECK(story.find<search::HostEndpoint>()->bound == Endpoint{"::", 29400});
  }
  SECTION("the port is in use: it looks at the second, and never binds that") {
    story.step(search::BindFailed{true, "in use"}).wait();
    REQUIRE(story.resolves("n2"));
    CHECK(story.find<search::Resolve>()->ask_names);
    SECTION("a name") {
      CHECK(story.step(kOwn).connects("10.0.0.1"));
    }
    SECTION("a name without an address") {
      story.step(search::Unresolved{"not found"});
      CHECK(story.state() == State::pausing);
    }
  }
}

TEST_CASE("Who is told not to host never binds, nor asks elsewhere") {
  Story story({kFirst, kSecond}, false);
  CHECK(story.step(kOwn).connects("10.0.0.1"));
  CHECK_FALSE(story.decides().asks_elsewhere());
}

// --- As client ------------------------------------------------------------------------------

TEST_CASE("All addresses of an endpoint are tried, then the next endpoint, at growing pauses") {
  Story story({kFirst, kSecond}, false);
  story.step(search::Resolved{{{"10.0.0.8"}, {"10.0.0.9"}}, false});
  CHECK(story.connects("10.0.0.8"));
  CHECK(story.left() == 1s);
  story.step(kRefused);
  CHECK(story.find<search::Disconnect>() != nullptr);
  CHECK(story.left() == 50ms);
  CHECK(story.wait().connects("10.0.0.9"));
  story.step(kRefused);
  CHECK(story.left() == 100ms);
  CHECK(story.wait().resolves("n2"));
  story.wait();  // nor does the name service
  CHECK(story.left() == 200ms);
  CHECK(story.wait().resolves("n1"));
  for (int i = 0; i < 5; ++i) {
    story.step(search::Unresolved{"not found"}).wait();
  }
  CHECK(story.step(search::Unresolved{"not found"}).left() == 1s);
}

TEST_CASE("A place that answered nothing has been waited for: the next one is tried at once") {
  Story story({kFirst, kSecond});
  for (int turn = 0; turn < 12; ++turn) {
    story.step(kOther);
    REQUIRE(story.state() == State::connecting);
    story.wait();
    CHECK(story.state() == State::pausing);
    CHECK(story.left() == 50ms);
    story.wait();
  }
  // Refusals cost no time of their own, so they are spaced as before.
  story.step(kOther).step(kRefused);
  CHECK(story.left() == 1s);
}

TEST_CASE("A coordinator that accepts is found, with the time of the hello") {
  NodeDescription node;
  node.host_name = "n7";
  Story story({kFirst}, false, 60s, node);
  story.step(kOther);
  story.now += 10ms;
  story.step(search::Connected{});
  REQUIRE(story.find<search::SayHello>() != nullptr);
  CHECK(story.find<search::SayHello>()->hello.node.host_name == "n7");
  CHECK(story.find<search::SayHello>()->hello.node.said_at == story.now);
  CHECK(story.find<search::SayHello>()->hello.node.by_endpoint);
  const Instant asked = story.now;
  story.now += 20ms;
  story.step(kAccepted);
  REQUIRE(story.find<HelloAccepted>() != nullptr);
  CHECK(story.find<HelloAccepted>()->accepted.term == Term{3});
  CHECK(story.find<HelloAccepted>()->asked_at == asked);
  CHECK(story.find<HelloAccepted>()->at_endpoint);
}

TEST_CASE("A detour is tried at once, at its addresses in order, and is no endpoint") {
  NodeDescription node;
  node.addresses = {"172.17.0.1"};
  Story story({kFirst, kSecond}, false, 60s, node);
  story.greet(kOther).step(names({"172.17.0.1", "10.0.0.5", "10.0.1.5"}));  // docker0 is anywhere
  CHECK(story.connects("10.0.0.5", 30'000));
  story.step(kRefused);
  CHECK(story.wait().connects("10.0.1.5", 30'000));
  story.step(search::Connected{});
  CHECK_FALSE(story.find<search::SayHello>()->hello.node.by_endpoint);
  SECTION("a coordinator is there") {
    story.step(kAccepted);
    CHECK(story.find<HelloAccepted>()->leader == "10.0.1.5:30000");
    CHECK_FALSE(story.find<HelloAccepted>()->at_endpoint);
  }
  SECTION("what is named there is not followed") {
    story.step(names({"10.0.0.2"}, 29400));
    CHECK(story.state() == State::pausing);
    CHECK(story.wait().resolves("n2"));
  }
}

TEST_CASE("A search that comes to the agent's own port says that no other agent is there") {
  NodeDescription node;
  node.voter = VoterId{7};
  Story story({kFirst}, false, 60s, node);
  search::Redirected answer = kKnowsNobody;
  answer.moved.from = VoterId{7};
  story.greet(kOwn).step(answer);
  CHECK(story.state() == State::pausing);
  story.now = 160s;
  story.wait().greet(kOwn).step(answer);
  CHECK(story.failure() ==
        "n1 (10.0.0.1) port 29400: cannot reach the coordinator: no agent but this one listens "
        "there, tried for 60 s; a coordinator that is elected calls this agent; if none can be, "
        "start the agents that are missing");
  Story other({kFirst}, false, 60s, node);
  answer.moved.from = VoterId{8};
  other.greet(kOther).step(answer);
  other.now = 160s;
  other.wait().greet(kOther).step(answer);
  CHECK(other.failure().find("an agent is there that has no coordinator yet") != std::string::npos);
}

TEST_CASE("An agent of another job sends nobody anywhere") {
  NodeDescription node;
  node.past = Past{};
  node.past->instance = JobInstance{5};
  Story story({kFirst}, false, 60s, node);
  search::Redirected answer = names({"10.0.0.5"});
  answer.moved.instance = JobInstance{6};
  story.greet(kOther).step(answer);
  CHECK(story.state() == State::pausing);
  answer.moved.instance = JobInstance{5};
  story.wait();
  CHECK(story.greet(kOther).step(answer).connects("10.0.0.5", 30'000));
}

TEST_CASE("Who has the own port and says nothing may be a stopped agent of the job") {
  NodeDescription node;
  node.voter = VoterId{7};
  Story story({kFirst}, {}, 60s, node);
  const Instant until = GENERATE(Instant(140s), Instant(170s));
  const auto tries = [&] { return story.state() == State::connecting; };
  while (story.state() != State::over && (story.now < until || !tries())) {
    tries() || story.state() == State::identifying ? story.step(search::Connected{})
    : story.state() == State::resolving            ? story.step(kOwn)
    : story.state() == State::binding              ? story.step(search::BindFailed{true, "in use"})
                                                   : story.wait();
  }
  if (story.state() == State::over) {
    CHECK((story.now >= Instant(160s) && until == Instant(170s)));
    CHECK(story.failure().find("ddprun's protocol, or it is stopped") != std::string::npos);
  } else if (GENERATE(true, false)) {  // it continues, and follows another coordinator
    story.step(search::Connected{}).step(names({"10.0.0.3"}));
    CHECK(story.connects("10.0.0.3", 30'000));
  } else {  // it is killed
    while (story.state() != State::resolving) {
      tries() ? story.step(kRefused) : story.wait();
    }
    CHECK(story.step(kOwn).step(search::Bound{29400}).find<search::HostEndpoint>() != nullptr);
  }
}

TEST_CASE("A rejection and another version are final") {
  Story story({kFirst}, false);
  story.greet(kOther).step(kRejected);
  CHECK(story.failure() ==
        "n1 (10.0.0.2) port 29400: the coordinator rejected this node: another program; look");
  CHECK(story.find<SearchFailed>()->rejected);
  Story version({kFirst}, false);
  version.greet(kOther).step(search::OtherVersion{99});
  CHECK(version.failure().find("version 99") != std::string::npos);
  CHECK_FALSE(version.find<SearchFailed>()->rejected);
}

TEST_CASE("What anybody could have said ends no search before its time") {
  const bool may_host = GENERATE(false, true);
  Story story({kFirst}, may_host ? std::optional<bool>() : std::optional<bool>(false));
  const auto nearly_over = story.now + 55s;
  while (story.now < nearly_over) {
    if (may_host && story.state() == State::resolving) {
      story.step(kOwn).step(search::BindFailed{true, "Address already in use"});
    } else if (story.state() == State::resolving) {
      story.step(kOther);
    }
    story.step(search::Connected{}).step(kUnbelieved);
    REQUIRE(story.state() == State::pausing);
    story.wait();
  }
  SECTION("the coordinator may be there later") {
    story.step(may_host ? kOwn : kOther);
    if (may_host) {
      story.step(search::BindFailed{true, "Address already in use"});
    }
    CHECK(story.step(search::Connected{}).step(kAccepted).find<HelloAccepted>() != nullptr);
  }
}

// --- What is it? ----------------------------------------------------------------------------

TEST_CASE("A listener that says nothing is asked once what it is, in two protocols' words") {
  Story story({kFirst}, false);
  story.greet(kOther);
  const int how = GENERATE(0, 1, 2);
  if (how == 0) {  // it is mute
    CHECK(story.left() == 5s);
    story.wait();
  } else if (how == 1) {  // it hangs up
    story.step(kClosed);
  } else {  // it resets so soon that nobody saw it connected
    story.step(kRefused).wait();
    story.step(kOther).step(search::Disconnected{was_reset()});
  }
  CHECK(story.connects("10.0.0.2"));
  CHECK(story.state() == State::identifying);
  story.step(search::Connected{});
  REQUIRE(story.find<search::SayProbe>() != nullptr);
  CHECK(story.find<search::SayProbe>()->words == search::SayProbe::Words::store);
  CHECK(story.left() == 700ms);
  story.wait();
  REQUIRE(story.find<search::SayProbe>() != nullptr);
  CHECK(story.find<search::SayProbe>()->words == search::SayProbe::Words::line);
  SECTION("it is recognised, and called so from then on") {
    story.step(kSsh).wait();
    story.greet(kOther).step(kClosed);
    CHECK(story.state() == State::pausing);
    story.now = 130s;
    story.wait().greet(kOther).step(kClosed);
    CHECK(story.failure().find("an SSH server listens there") != std::string::npos);
  }
  SECTION("it is not") {
    story.wait();
    CHECK(story.state() == State::pausing);
    story.wait().greet(kOther).step(kClosed);
    CHECK(story.state() == State::pausing);
  }
}

TEST_CASE("What is known of one port says nothing of another port of the host") {
  Story story({{"n2", 1}, {"n2", 2}}, false);
  story.greet(kOther).step(kClosed).step(search::Connected{}).step(kSsh).wait();
  story.greet(kOther).step(kClosed);
  CHECK(story.connects("10.0.0.2", 2));
  CHECK(story.state() == State::identifying);
}

// --- Its end --------------------------------------------------------------------------------

TEST_CASE("At the join timeout the verdict is what was found, not the try that it cut short") {
  Story story({kFirst}, false, 10s);
  while (story.now < Instant(109s)) {
    story.step(kOther).step(kRefused).wait();
  }
  story.step(kOther);
  CHECK(*story.decides().next_deadline() == Instant(110s));
  story.wait();
  CHECK(story.failure() ==
        "n1 (10.0.0.2) port 29400: cannot reach the coordinator: connection refused, tried for 10 "
        "s; start the agent on that host, or check the endpoint's host and port");
}

TEST_CASE("Other words than ours are final after a while at the only endpoint") {
  for (const bool alone : {true, false}) {
    Story story(alone ? std::vector<Endpoint>{kFirst} : std::vector<Endpoint>{kFirst, kSecond},
                false);
    while (story.now < Instant(130s) && story.state() != State::over) {
      story.greet(kOther).step(kSsh);
      if (story.state() != State::over) {
        story.wait();
      }
    }
    CHECK((story.state() == State::over) == alone);
  }
}

TEST_CASE("Other words than ours are not final at their first sight, however late that is") {
  Story story({kFirst}, false);
  story.step(kOther);
  story.now += 30s;  // this process is stopped meanwhile
  story.step(search::Connected{}).step(kUnknown);
  CHECK(story.state() == State::pausing);
  story.wait().greet(kOther).step(kAccepted);
  CHECK(story.find<HelloAccepted>() != nullptr);
}

TEST_CASE("People are told what is tried") {
  Story story({kFirst}, false);
  while (story.find<LogLine>() == nullptr) {
    REQUIRE(story.now < Instant(105s));
    if (story.state() == State::pausing) {
      story.wait();
    } else {
      story.step(kOther).step(kRefused);
    }
  }
  CHECK(story.find<LogLine>()->text.find("waiting for the coordinator at n1 (10.0.0.2) port 29400: "
                                         "connection refused") == 0);
}

// --- Any input in any state -----------------------------------------------------------------

namespace {

std::vector<search::Input> all_inputs() {
  return {kOther,
          search::Unresolved{"no"},
          search::Bound{1},
          search::BindFailed{true, ""},
          search::Connected{},
          kRefused,
          kClosed,
          kAccepted,
          kRejected,
          names({"10.0.0.5"}),
          search::OtherVersion{99},
          kSsh};
}

/// One that is in this state, under no deadline that is near.
Story in_state(State state) {
  Story story({kFirst}, state == State::binding ? std::optional<bool>() : false);
  switch (state) {
    case State::resolving:
      return story;
    case State::binding:
      return story.step(kOwn);
    case State::pausing:
      return story.step(kOther).step(kRefused);
    case State::connecting:
      return story.step(kOther);
    case State::greeting:
      return story.greet(kOther);
    case State::identifying:
      return story.greet(kOther).step(kClosed);
    case State::probing:
      return story.greet(kOther).step(kClosed).step(search::Connected{});
    case State::probing_again:
      return story.greet(kOther).step(kClosed).step(search::Connected{}).wait();
    case State::over:
      return story.greet(kOther).step(kAccepted);
  }
  return story;
}

}  // namespace

TEST_CASE("What does not belong to the state of a search is ignored") {
  const std::map<State, std::set<std::size_t>> belong{{State::pausing, {}},
                                                      {State::resolving, {0, 1}},
                                                      {State::binding, {2, 3}},
                                                      {State::connecting, {4, 5, 6}},
                                                      {State::greeting, {5, 6, 7, 8, 9, 10, 11}},
                                                      {State::identifying, {4, 5, 6, 11}},
                                                      {State::probing, {5, 6, 11}},
                                                      {State::probing_again, {5, 6, 11}},
                                                      {State::over, {}}};
  for (const auto& [state, expected] : belong) {
    const auto inputs = all_inputs();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      INFO(static_cast<int>(state) << " " << i);
      Story story = in_state(state);
      REQUIRE(story.state() == state);
      const auto due = story.decides().next_deadline();
      story.step(inputs[i]);
      const bool ignored =
          story.actions.empty() && story.state() == state && story.decides().next_deadline() == due;
      CHECK(ignored == !expected.contains(i));
    }
    Story story = in_state(state);
    CHECK(story.step(search::TimePassed{}).actions.empty());  // too early
    CHECK(story.state() == state);
  }
}

TEST_CASE("A search ends, or waits for something with a deadline, whatever happens") {
  for (std::uint32_t seed = 0; seed < 3'000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t n) { return random() % n; };
    std::vector<Endpoint> endpoints;
    for (std::uint32_t i = 0; i <= below(4); ++i) {
      endpoints.push_back({"n" + std::to_string(i), static_cast<std::uint16_t>(29400 + below(2))});
    }
    NodeDescription node;
    node.addresses = {"10.0.0.1"};
    const std::optional<bool> is_host = below(2) == 0 ? std::nullopt : std::optional(below(3) == 0);
    const std::chrono::milliseconds timeout(below(20'000));
    Instant now = 100s;
    LeaderSearch search(SearchRequest{endpoints, node, is_host, timeout}, now);
    std::size_t ends = 0;
    int at_once = 0;
    while (const auto due = search.next_deadline()) {
      // Each endpoint may be asked before the first is bound; its port may be taken then.
      REQUIRE(now < 100s + timeout + endpoints.size() * 1s + 30s);
      search::Input input = search::TimePassed{};
      if (at_once > 200 || below(3) == 0) {
        now = std::max(now, *due);
        at_once = 0;
      } else if (below(2) == 0) {
        now += std::chrono::milliseconds(below(300));
      } else {
        ++at_once;
      }
      if (at_once > 0) {
        auto inputs = all_inputs();
        inputs.push_back(kOwn);
        inputs.push_back(search::Resolved{});
        inputs.push_back(kKnowsNobody);
        inputs.push_back(search::BindFailed{false, "no"});
        inputs.push_back(search::Resolved{{{"10.0.0.1", true}, {"10.0.0.2"}, {"::1", true}}, true});
        input = inputs[below(static_cast<std::uint32_t>(inputs.size()))];
        // The ends are rare: most searches are long.
        const bool is_end = std::holds_alternative<search::Accepted>(input) ||
                            std::holds_alternative<search::Rejected>(input) ||
                            std::holds_alternative<search::OtherVersion>(input) ||
                            std::holds_alternative<search::Bound>(input);
        input = is_end && below(20) != 0 ? search::Input(search::Connected{}) : input;
      }
      for (const search::Action& action : search.step(now, input)) {
        ends += std::holds_alternative<search::HostEndpoint>(action) ||
                std::holds_alternative<HelloAccepted>(action) ||
                std::holds_alternative<SearchFailed>(action);
        const auto* bind = std::get_if<search::Bind>(&action);
        CHECK((bind == nullptr || is_host != false));
      }
      CHECK((ends == 1) == (search.state() == State::over));
    }
    CHECK(search.step(now + 1h, search::TimePassed{}).empty());
    REQUIRE(ends == 1);
  }
}
