#include "rendezvous/node/leader.h"

#include <catch2/catch.hpp>

#include "rendezvous/node/leader_call.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

constexpr NodeId kOwn{1};
constexpr NodeId kOther{2};

/// A leader of a job of two nodes, which begins at its endpoint.
class Story {
 public:
  explicit Story(LeaderOptions given = options()) : leader(std::move(given), 100s) {
    step(SessionOpened{kOwn, true, {}});
    step(SessionTold{kOwn, message::Hello{describe(1)}});
  }

  void step(LeaderInput input) { actions = leader.step(now, std::move(input)); }
  void join_other() {
    step(SessionOpened{kOther, false, "10.0.0.2"});
    step(SessionTold{kOther, message::Hello{describe(2)}});
  }

  template <class Kind>
  const Kind* find() const {
    for (const LeaderAction& one : actions) {
      if (const auto* found = std::get_if<Kind>(&one)) {
        return found;
      }
    }
    return nullptr;
  }
  /// What is sent of that kind.
  template <class Kind>
  const Kind* sent() const {
    for (const LeaderAction& one : actions) {
      const auto* send = std::get_if<SendMessage>(&one);
      if (send != nullptr && std::holds_alternative<Kind>(send->message)) {
        return &std::get<Kind>(send->message);
      }
    }
    return nullptr;
  }

  static LeaderOptions options() {
    LeaderOptions options;
    options.membership.job_id = "job";
    options.membership.min_nodes = options.membership.max_nodes = 2;
    options.membership.self = VoterId{1};
    options.failover = true;
    options.addresses = {"10.0.0.1"};
    options.port = 29400;
    return options;
  }
  static NodeDescription describe(std::uint64_t voter) {
    NodeDescription node;
    node.host_name = "n" + std::to_string(voter);
    node.job_id = "job";
    node.min_nodes = node.max_nodes = 2;
    node.voter = VoterId{voter};
    node.addresses = {"10.0.0." + std::to_string(voter)};
    node.port = 4711;
    return node;
  }

  Leader leader;
  Instant now = 100s;
  std::vector<LeaderAction> actions;
};

}  // namespace

TEST_CASE("A leader accepts a node, and tells its standby what it has to know") {
  Story story;
  story.join_other();
  CHECK(story.sent<message::Accepted>() != nullptr);
  const auto* state = story.sent<message::StandbyState>();
  REQUIRE(state != nullptr);
  CHECK(state->voters.size() == 2);
  CHECK(story.leader.is_member(kOther));
}

TEST_CASE("What comes before a hello ends the session") {
  Story story;
  story.step(SessionOpened{kOther, false, "10.0.0.2"});
  story.step(SessionTold{kOther, message::Started{}});
  CHECK(story.find<DropSession>() != nullptr);
}

TEST_CASE("A node is dead for certain if it followed, and its kernel closed without a word") {
  const auto voters_needed = [](bool echoed, bool leaves, bool by_peer) {
    Story story;
    story.join_other();
    if (echoed) {
      story.step(SessionEchoed{kOther, story.now});
    }
    if (leaves) {
      story.step(SessionTold{kOther, message::Leaving{}});
    }
    story.step(SessionClosed{kOther, "it is gone", {}, by_peer});
    return story.leader.membership().leadership().dead().size();
  };
  CHECK(voters_needed(true, false, true) == 1);
  CHECK(voters_needed(false, false, true) == 0);
  CHECK(voters_needed(true, true, true) == 0);
  CHECK(voters_needed(true, false, false) == 0);
}

TEST_CASE("A leader grants no vote, and gives way to a leader of a later term of its job") {
  Story story;
  story.step(SessionOpened{kOther, false, "10.0.0.2"});
  story.step(SessionTold{kOther, message::AskVote{}});
  REQUIRE(story.find<SendAndClose>() != nullptr);
  CHECK(std::holds_alternative<message::Moved>(story.find<SendAndClose>()->message));
  CHECK(story.find<StepDown>() == nullptr);

  const auto steps_down = [&](std::uint64_t session, const std::string& job, Term term) {
    const NodeId id{session};
    story.step(SessionOpened{id, false, "10.0.0.3"});
    story.step(SessionTold{id, message::Follow{job, term, {"10.0.0.3"}, 1, std::nullopt}});
    return story.find<StepDown>() != nullptr;
  };
  CHECK_FALSE(steps_down(10, "job", Term{0}));
  CHECK_FALSE(steps_down(11, "another", Term{5}));
  CHECK(steps_down(12, "job", Term{2}));
}

TEST_CASE("A leader that took over calls the voters that are away, and the endpoints") {
  LeaderOptions options = Story::options();
  options.voters = {{VoterId{2}, "n2", {"10.0.0.2"}, 4711}};
  TakeoverState taken;
  taken.known.configuration = {make_configuration(Term{1}, VoterId{9}, 1),
                               {VoterId{1}, VoterId{2}}};
  options.membership.term = Term{2};
  options.membership.inheritance = taken;
  Story story(options);
  REQUIRE(story.leader.next_deadline().has_value());
  story.step(LeaderTimePassed{});
  REQUIRE(story.find<CallVoters>() != nullptr);
  CHECK(story.find<CallVoters>()->voters.size() == 1);
  REQUIRE(story.find<CallEndpoints>() != nullptr);
  CHECK(story.find<CallEndpoints>()->call.to_endpoint.has_value());
  CHECK(*story.leader.next_deadline() > story.now);
}

TEST_CASE("A leader that hears of a later term steps down for it") {
  Story story;
  story.step(CallAnswered{{VoterId{2}, "n2", {"10.0.0.2"}, 4711}, Term{3}});
  REQUIRE(story.find<StepDown>() != nullptr);
  REQUIRE(story.find<StepDown>()->by.has_value());
  CHECK(story.find<StepDown>()->by->port == 4711);
}

TEST_CASE("Of equal terms the leader that was elected comes before a coordinator that began") {
  message::Follow elected{"job", Term{2}, {"10.0.0.3"}, 1, std::nullopt};
  if (GENERATE(false, true)) {
    elected.to_endpoint = message::JobOptions{};
  }
  // The call comes before the coordinator has raised its term, and after.
  CHECK(outranks(elected, Term{1}, true));
  CHECK(outranks(elected, Term{2}, true));
  CHECK_FALSE(outranks(elected, Term{3}, true));
  // A coordinator that was elected, or has a world, has the votes for its term.
  CHECK_FALSE(outranks(elected, Term{2}, false));
  CHECK(outranks(elected, Term{1}, false));
  // Only a coordinator without a world is called at its endpoint.
  CHECK(call_is_for(elected, "job", message::JobOptions{}, false) !=
        elected.to_endpoint.has_value());
}
