#include "rendezvous/node/leader.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "rendezvous/membership/election.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/protocol/message_codec.h"
#include "tests/unit/node/leader_story.h"

using namespace ddprun;

namespace {

message::Follow call_of(Term term, JobInstance instance = kJob, const std::string& job = "job") {
  return {job, term, {"10.0.0.3"}, 1, std::nullopt, instance, VoterId{1}};
}

}  // namespace

TEST_CASE("A node that gave its leader up after its hello was in no world") {
  LeaderStory story;
  const auto hello = [&](NodeId node) {
    story.leader.step(story.now, SessionOpened{node, false, "10.0.0.2"});
    story.actions =
        story.leader.step(story.now, SessionTold{node, message::Hello{LeaderStory::describe(2)}});
  };
  hello(kOther);
  CHECK(story.sent<message::Accepted>() != nullptr);
  CHECK(story.leader.membership().nodes() == 1);
  story.step(SessionClosed{kOther, "its connection closed", {}, true, false});
  CHECK(story.leader.membership().nodes() == 1);
  CHECK(story.sent<message::TellIncident>() == nullptr);
  const NodeId again{77};
  hello(again);
  SECTION("a beat shows that it follows") {
    story.step(SessionEchoed{again, story.now});
  }
  SECTION("so does what it reports") {
    story.step(SessionTold{again, message::StopRequest{15, StopWish::end, {}}});
  }
  CHECK(story.leader.membership().nodes() == 2);
}

TEST_CASE("A node that was greeted leaves when another has said that this is another job") {
  LeaderStory story;
  const auto come = [&](std::uint64_t voter, JobInstance instance) {
    NodeDescription node = LeaderStory::describe(voter);
    node.past = Past{};
    node.past->term = Term{1};
    node.past->instance = instance;
    story.leader.step(story.now, SessionOpened{NodeId{voter}, false, "10.0.0.2"});
    story.leader.step(story.now, SessionTold{NodeId{voter}, message::Hello{node}});
  };
  come(2, JobInstance{77});
  come(3, JobInstance{78});
  story.step(SessionEchoed{NodeId{3}, story.now});
  CHECK(story.leader.membership().nodes() == 2);
  story.step(SessionEchoed{NodeId{2}, story.now});
  CHECK(story.leader.membership().nodes() == 2);
  const auto* away = story.find<SendAndClose>();
  REQUIRE(away != nullptr);
  CHECK(std::holds_alternative<message::Farewell>(*away->message));
}

TEST_CASE("Nothing begins anew while a greeted node is about to say what it remembers") {
  LeaderOptions options = LeaderStory::options();
  options.membership.heartbeat_timeout = options.heartbeat_timeout = 3s;
  LeaderStory story(options);
  NodeDescription old = LeaderStory::describe(2);
  old.past = Past{};
  old.past->term = Term{1};
  old.past->attempt = AttemptNumber{4};
  old.past->instance = JobInstance{77};
  story.leader.step(story.now, SessionOpened{NodeId{2}, false, "10.0.0.2"});
  story.leader.step(story.now, SessionTold{NodeId{2}, message::Hello{old}});
  story.step(SessionOpened{NodeId{3}, false, "10.0.0.3"});
  story.step(SessionTold{NodeId{3}, message::Hello{LeaderStory::describe(3)}});
  const auto plans = [&] { return story.leader.membership().leadership().planning(); };
  CHECK(story.leader.membership().nodes() == 2);  // which is all that the job wants
  CHECK_FALSE(plans());
  SECTION("what it says counts") {
    story.step(SessionEchoed{NodeId{2}, story.now});
    CHECK_FALSE(plans());
    CHECK(story.leader.membership().leadership().in_use().instance == JobInstance{77});
  }
  SECTION("it is gone") {
    story.step(SessionClosed{NodeId{2}, "its connection closed", {}, true, false});
    CHECK(plans());
  }
}

TEST_CASE("The end is not told past a node that has let go, and is about to close") {
  const bool lets_go = GENERATE(false, true);
  LeaderOptions options = LeaderStory::options();
  options.membership.heartbeat_timeout = options.heartbeat_timeout = 3s;
  LeaderStory story(options);
  story.join_other();
  const auto keep = [&](NodeId node) {
    const auto* state = story.sent<message::VoterState>();
    REQUIRE(state != nullptr);
    story.step(SessionTold{
        node, message::StateKept{state->replicated.configuration.number, story.now.count()}});
  };
  keep(kOwn);
  const AttemptNumber attempt = story.leader.membership().attempt().value();
  story.step(SessionTold{kOther, message::Finished{attempt, {}}});
  if (lets_go) {
    story.step(SessionTold{kOther, message::Leaving{}});
  }
  story.step(SessionTold{kOwn, message::Finished{attempt, {}}});
  keep(kOwn);
  CHECK((story.find<EndJob>() != nullptr) == !lets_go);
  story.step(SessionClosed{kOther, "its connection closed", {}, true, false});
  CHECK((story.leader.membership().state() == JobState::ending) == lets_go);
}

TEST_CASE("A leader accepts a node, and tells the voters what they have to know") {
  LeaderStory story;
  story.join_other();
  CHECK(story.sent<message::Accepted>() != nullptr);
  const auto* state = story.sent<message::VoterState>();
  REQUIRE(state != nullptr);
  CHECK(state->nodes.size() == 2);
  CHECK(story.leader.members() == std::vector<NodeId>{kOwn, kOther});
}

TEST_CASE("The voters are told where all nodes of a large job are, in messages of bounded size") {
  constexpr std::uint64_t kNodes = 2 * kNodesInMessageMax + 100;
  LeaderOptions options = LeaderStory::options();
  options.membership.min_nodes = options.membership.max_nodes = kNodes;
  const auto describe = [](std::uint64_t voter) {
    NodeDescription node = LeaderStory::describe(voter);
    node.min_nodes = node.max_nodes = kNodes;
    return node;
  };
  Leader leader(options, 100s);
  std::vector<LeaderAction> actions;
  for (std::uint64_t one = 1; one <= kNodes; ++one) {
    (void)leader.step(100s, SessionOpened{NodeId{one}, one == 1, "10.0.0.2"});
    // The last ones come with the smallest numbers, so that the voters are not the first ones.
    (void)leader.step(
        100s, SessionTold{NodeId{one}, message::Hello{describe(one == 1 ? 1 : kNodes + 2 - one)}});
    actions = leader.step(100s, SessionEchoed{NodeId{one}, 100s});
  }
  std::map<NodeId, std::set<VoterId>> told;
  const auto note = [&](const std::vector<NodeId>& receivers, const auto& nodes) {
    CHECK(nodes.size() <= kNodesInMessageMax);
    for (const NodeId receiver : receivers) {
      for (const VoterAddress& one : nodes) {
        told[receiver].insert(one.voter);
      }
    }
  };
  for (const LeaderAction& one : actions) {
    const auto* send = std::get_if<SendMessage>(&one);
    if (send == nullptr) {
      continue;
    }
    if (const auto* state = std::get_if<message::VoterState>(send->message.get())) {
      CHECK(told[send->nodes.front()].empty());  // it comes before MoreNodes
      note(send->nodes, state->nodes);
      for (const VoterId voter : state->replicated.configuration.voters) {
        CHECK(told[send->nodes.front()].count(voter) == 1);
      }
    } else if (const auto* more = std::get_if<message::MoreNodes>(send->message.get())) {
      note(send->nodes, more->nodes);
    }
  }
  CHECK(told.size() > 2);
  for (const auto& [receiver, known] : told) {
    CHECK(known.size() == kNodes);
  }
}

TEST_CASE("Only on the host of the coordinator before does its endpoint prove that it is gone") {
  const HostIdentity host{3, 4, 5};
  for (const HostIdentity& now : {host, HostIdentity{7, 8, 5}, HostIdentity{7, 8, 9}}) {
    LeaderOptions options = LeaderStory::options();
    options.host = now;
    options.at_first_endpoint = true;
    LeaderStory story(options);
    // Half of the voters of that coordinator, which itself is in the other half.
    for (const std::uint64_t voter : {2U, 3U}) {
      NodeDescription node = LeaderStory::describe(voter);
      node.copy.emplace();
      node.copy->replicated.term = node.promise.term = Term{1};
      node.copy->replicated.coordinator = node.promise.to = VoterId{9};
      node.copy->replicated.instance = kJob;
      node.copy->replicated.configuration = {make_configuration(Term{1}, VoterId{9}, 1),
                                             {VoterId{2}, VoterId{3}, VoterId{8}, VoterId{9}}};
      node.promise.configuration = node.copy->replicated.configuration.number;
      node.copy->at_endpoint = true;
      node.copy->host = host;
      node.past = Past{Term{1}, AttemptNumber{3}, node.promise.configuration, 1, 3, true, host};
      node.past->instance = kJob;
      story.step(SessionOpened{NodeId{voter}, false, "10.0.0." + std::to_string(voter)});
      story.step(SessionTold{NodeId{voter}, message::Hello{node}});
      REQUIRE(story.sent<message::Accepted>() != nullptr);
      CHECK(story.sent<message::Accepted>()->host == now);
      CHECK(story.sent<message::Accepted>()->at_first_endpoint);
    }
    CHECK(story.leader.membership().leadership().quorum_follows() == (now.machine == 5));
  }
}

TEST_CASE("The voters are told of a node that comes later, and of one that is away") {
  LeaderOptions options = LeaderStory::options();
  options.membership.min_nodes = options.membership.max_nodes = 3;
  LeaderStory story(options);
  for (const std::uint64_t node : {2U, 5U}) {
    story.step(SessionOpened{NodeId{node}, false, "10.0.0." + std::to_string(node)});
    story.step(SessionTold{NodeId{node}, message::Hello{LeaderStory::describe(node, 3)}});
  }
  const auto configuration = story.sent<message::VoterState>()->replicated.configuration.number;
  story.step(SessionTold{kOwn, message::StateKept{configuration, 0}});
  story.step(SessionTold{kOther, message::StateKept{configuration, 0}});
  REQUIRE(story.leader.membership().state() == JobState::running);
  const NodeId spare{3};
  story.step(SessionOpened{spare, false, "10.0.0.3"});
  story.step(SessionTold{spare, message::Hello{LeaderStory::describe(3, 3)}});
  const auto* more = story.sent<message::MoreNodes>();
  REQUIRE(more != nullptr);
  REQUIRE(more->nodes.size() == 1);
  CHECK(more->nodes.front().voter == VoterId{3});
  // It falls silent, and then the world is another one.
  story.step(SessionClosed{spare, "it was silent for 3 s", 3s, false});
  story.step(SessionClosed{kOther, "its connection closed", {}, true});
  for (const NodeId left : {kOwn, NodeId{5}}) {
    story.step(SessionTold{left, message::Stopped{AttemptNumber{}, {}, 0, {}}});
  }
  const NodeDescription replacement = LeaderStory::describe(4, 3);
  story.step(SessionOpened{NodeId{4}, false, "10.0.0.4"});
  story.step(SessionTold{NodeId{4}, message::Hello{replacement}});
  const auto* state = story.sent<message::VoterState>();
  REQUIRE(state != nullptr);
  const auto is_spare = [](const message::VoterAddress& one) { return one.voter == VoterId{3}; };
  CHECK(std::any_of(state->nodes.begin(), state->nodes.end(), is_spare));
}

TEST_CASE("A coordinator without state tells the old job's voters which nodes have come to it") {
  LeaderOptions options = LeaderStory::options();
  options.membership.min_nodes = options.membership.max_nodes = 4;
  LeaderStory story(options);
  const auto join = [&](std::uint64_t voter, bool votes) {
    NodeDescription node = LeaderStory::describe(voter, 4);
    if (votes) {
      node.copy.emplace();
      node.copy->replicated.term = Term{1};
      node.copy->replicated.coordinator = VoterId{9};
      node.copy->replicated.instance = kJob;
      node.copy->replicated.configuration = {make_configuration(Term{1}, VoterId{9}, 1),
                                             {VoterId{3}, VoterId{8}, VoterId{9}}};
      node.promise = {Term{1}, VoterId{9}, node.copy->replicated.configuration.number};
      node.past = Past{Term{1}, AttemptNumber{3}, node.promise.configuration, 1, 2};
      node.past->instance = kJob;
    }
    story.step(SessionOpened{NodeId{voter}, false, "10.0.0." + std::to_string(voter)});
    story.step(SessionTold{NodeId{voter}, message::Hello{node}});
  };
  join(2, false);
  CHECK(story.sent<message::MoreNodes>() == nullptr);
  join(3, true);
  const auto* all = story.sent<message::MoreNodes>();
  REQUIRE(all != nullptr);
  CHECK(all->nodes.size() == 3);  // it may lead, and has to find the others
  join(4, false);
  const auto* one = story.sent<message::MoreNodes>();
  REQUIRE(one != nullptr);
  REQUIRE(one->nodes.size() == 1);
  CHECK(one->nodes.front().voter == VoterId{4});
}

TEST_CASE("What comes before a hello ends the session") {
  LeaderStory story;
  story.step(SessionOpened{kOther, false, "10.0.0.2"});
  story.step(SessionTold{kOther, message::Started{}});
  CHECK(story.find<DropSession>() != nullptr);
}

TEST_CASE("A node is dead for certain if it followed, and its kernel closed without a word") {
  const auto voters_needed = [](bool echoed, bool leaves, bool by_peer) {
    LeaderStory story;
    story.leader.step(story.now, SessionOpened{kOther, false, "10.0.0.2"});
    story.leader.step(story.now, SessionTold{kOther, message::Hello{LeaderStory::describe(2)}});
    if (echoed) {
      story.step(SessionEchoed{kOther, story.now});
    }
    if (leaves) {
      story.step(SessionTold{kOther, message::Leaving{}});
    }
    story.step(SessionClosed{kOther, "it is gone", {}, by_peer});
    return story.leader.membership().leadership().here().dead().size();
  };
  CHECK(voters_needed(true, false, true) == 1);
  CHECK(voters_needed(false, false, true) == 0);
  CHECK(voters_needed(true, true, true) == 0);
  CHECK(voters_needed(true, false, false) == 0);
}

TEST_CASE("The lease of a lost node is over if it is dead for certain, or said that it leaves") {
  struct Seen : LeaderObserver {
    void applied(Instant /*now*/, const Event& event, const std::vector<Command>& /*commands*/,
                 const Membership& /*membership*/) override {
      if (const auto* lost = std::get_if<NodeLost>(&event)) {
        lease_left = lost->lease_left;
      }
    }
    std::chrono::nanoseconds lease_left = -1ns;
  } seen;
  LeaderStory story;
  story.leader.watch(&seen);
  story.join_other();
  story.step(SessionEchoed{kOther, story.now});
  SECTION("its kernel closed the connection") {
    story.step(SessionClosed{kOther, "its connection closed", {}, true});
    CHECK(seen.lease_left == 0s);
  }
  SECTION("it left, and then something broke the connection") {
    story.step(SessionTold{kOther, message::Leaving{}});
    story.step(SessionClosed{kOther, "its connection broke", {}, false});
    CHECK(seen.lease_left == 0s);
  }
  SECTION("its kernel reset the connection, as it does where bytes were unread") {
    story.step(SessionClosed{kOther, "its connection broke", {}, false, true});
    CHECK(seen.lease_left == 0s);
  }
  SECTION("something broke the connection") {
    story.step(SessionClosed{kOther, "its connection broke", {}, false});
    CHECK(seen.lease_left == 3s);
  }
  SECTION("it was silent") {
    story.step(SessionClosed{kOther, "it was silent for 2 s", 2s, false});
    CHECK(seen.lease_left == 1s);
  }
}

TEST_CASE("A leader grants no vote, and gives way to a leader of a later term of its job") {
  LeaderStory story;
  story.step(SessionOpened{kOther, false, "10.0.0.2"});
  story.step(SessionTold{kOther, message::AskVote{}});
  REQUIRE(story.find<SendAndClose>() != nullptr);
  CHECK(std::holds_alternative<message::Moved>(*story.find<SendAndClose>()->message));
  CHECK(story.find<StepDown>() == nullptr);

  const auto steps_down = [&](std::uint64_t session, const std::string& job, Term term) {
    const NodeId id{session};
    story.step(SessionOpened{id, false, "10.0.0.3"});
    story.step(SessionTold{id, call_of(term, kJob, job)});
    return story.find<StepDown>() != nullptr;
  };
  CHECK_FALSE(steps_down(10, "job", Term{0}));
  CHECK_FALSE(steps_down(11, "another", Term{5}));
  CHECK(steps_down(12, "job", Term{2}));
}

TEST_CASE("A coordinator that begins gives way to the leader of the term that its nodes remember") {
  const std::uint32_t term = GENERATE(2U, 3U);
  LeaderStory story;
  NodeDescription node = LeaderStory::describe(2);
  node.past = Past{Term{3}, AttemptNumber{4}, make_configuration(Term{3}, VoterId{9}, 1), 1, 1};
  node.past->instance = JobInstance{77};
  story.step(SessionOpened{kOther, false, "10.0.0.2"});
  story.step(SessionTold{kOther, message::Hello{node}});
  REQUIRE(story.leader.term() == Term{4});  // without a vote
  story.step(SessionOpened{NodeId{3}, false, "10.0.0.3"});
  story.step(SessionTold{NodeId{3}, call_of(Term{term}, JobInstance{77})});
  CHECK((story.find<StepDown>() != nullptr) == (term == 3));
  // Its answer deposes a leader of an older term, but not the one that it gives way to.
  REQUIRE(story.find<SendAndClose>() != nullptr);
  CHECK(std::get<message::Moved>(*story.find<SendAndClose>()->message).term == Term{3});
}

TEST_CASE("A leader that took over calls no node that it has refused") {
  LeaderOptions options = LeaderStory::options();
  options.membership.min_nodes = 1;
  options.membership.at_endpoint = false;
  TakeoverState taken;
  taken.known.instance = kJob;
  taken.known.configuration = {make_configuration(Term{1}, VoterId{9}, 1), {VoterId{1}}};
  options.membership.term = Term{2};
  options.membership.inheritance = taken;
  LeaderStory story(options);
  NodeDescription astray = LeaderStory::describe(5);
  astray.min_nodes = 1;
  astray.by_endpoint = true;
  story.step(SessionOpened{kOther, false, "10.0.0.5"});
  story.step(SessionTold{kOther, message::Hello{astray}});
  REQUIRE(story.find<SendAndClose>() != nullptr);
  REQUIRE(std::holds_alternative<message::Rejected>(*story.find<SendAndClose>()->message));
  CHECK(story.sent<message::MoreNodes>() == nullptr);
  // By such a call it would come a second time, and not by that endpoint.
  story.step(LeaderTimePassed{});
  REQUIRE(story.find<CallVoters>() != nullptr);
  for (const auto& one : story.find<CallVoters>()->calls) {
    CHECK(one.call.voter != VoterId{5});
  }
}

TEST_CASE("A leader that took over calls the nodes that are away, and the endpoints") {
  LeaderOptions options = LeaderStory::options();
  options.nodes = {{VoterId{2}, "n2", {"10.0.0.2"}, 4711}};
  TakeoverState taken;
  taken.known.instance = kJob;
  taken.known.configuration = {make_configuration(Term{1}, VoterId{9}, 1),
                               {VoterId{1}, VoterId{2}}};
  options.membership.term = Term{2};
  options.membership.inheritance = taken;
  LeaderStory story(options);
  REQUIRE(story.leader.next_deadline().has_value());
  story.step(LeaderTimePassed{});
  REQUIRE(story.find<CallVoters>() != nullptr);
  REQUIRE(story.find<CallVoters>()->calls.size() == 1);
  CHECK(story.find<CallVoters>()->calls.front().call.voter == VoterId{2});
  CHECK(story.find<CallVoters>()->calls.front().call.instance == kJob);
  REQUIRE(story.find<CallEndpoints>() != nullptr);
  CHECK(story.find<CallEndpoints>()->call.to_endpoint.has_value());
  CHECK(*story.leader.next_deadline() > story.now);
}

TEST_CASE("An end that ten voters of two configurations repeat is a state that has room") {
  // Two configurations of seven voters, eleven in all; 11 was the coordinator, and is gone.
  ReplicatedState over{
      Term{1}, Term{1}, VoterId{11}, AttemptNumber{4}, {ConfigurationNumber{3}, {}}, {}, {}};
  over.ends = true;
  over.before = {{ConfigurationNumber{2}, {}}};
  for (const std::uint64_t id : {1U, 2U, 3U, 4U, 5U, 6U, 11U}) {
    over.configuration.voters.push_back(VoterId{id});
  }
  for (const std::uint64_t id : {1U, 2U, 7U, 8U, 9U, 10U, 11U}) {
    over.before.front().voters.push_back(VoterId{id});
  }
  Election election(VoterId{1}, over, 0, {100ms, 50ms, 1s}, Term{1}, 100s);
  REQUIRE(election.time_passed(100s));
  election.on_gone(100s, VoterId{11});
  for (std::uint64_t id = 1; id <= 10; ++id) {
    Vote vote;
    vote.newest_term = Term{2};
    vote.prepared_configuration = ConfigurationNumber{3};
    vote.assigned_configuration = ConfigurationNumber{2};
    election.on_vote(100s, VoterId{id}, vote);
  }
  CHECK_FALSE(election.time_passed(100s));
  REQUIRE(election.state() == Election::State::leading);

  LeaderOptions options = LeaderStory::options();
  options.membership.min_nodes = options.membership.max_nodes = 10;
  options.membership.term = Term{2};
  options.membership.inheritance.emplace().known = election.inheritance();
  Leader leader(options, 100s);
  std::optional<message::VoterState> sent;
  std::set<NodeId> receivers;
  const auto step = [&](Instant now, LeaderInput input) {
    for (const LeaderAction& one : leader.step(now, std::move(input))) {
      const auto* send = std::get_if<SendMessage>(&one);
      if (send != nullptr && std::holds_alternative<message::VoterState>(*send->message)) {
        CHECK_FALSE(encode(*send->message).empty());
        sent = std::get<message::VoterState>(*send->message);
        receivers.insert(send->nodes.begin(), send->nodes.end());
      }
    }
  };
  for (std::uint64_t id = 1; id <= 10; ++id) {
    NodeDescription node = LeaderStory::describe(id);
    node.min_nodes = node.max_nodes = 10;
    step(100s, SessionOpened{NodeId{id}, id == 1, "10.0.0.2"});
    step(100s, SessionTold{NodeId{id}, message::Hello{node}});
    step(100s, SessionEchoed{NodeId{id}, 100s});
  }
  receivers.clear();
  step(101s, LeaderTimePassed{});  // after the pause for those that have just joined
  REQUIRE(sent.has_value());
  CHECK(sent->replicated.ends);
  CHECK(sent->replicated.configuration.voters.size() == kVotersMax);
  CHECK(receivers.size() == 10);  // the voters of the configurations before, too
}

TEST_CASE("A leader that hears of a later term steps down for it") {
  LeaderStory story;
  story.step(CallAnswered{{VoterId{2}, "n2", {"10.0.0.2"}, 4711}, Term{3}, JobInstance{77}});
  CHECK(story.find<StepDown>() == nullptr);
  story.step(CallAnswered{{VoterId{2}, "n2", {"10.0.0.2"}, 4711}, Term{3}, kJob});
  REQUIRE(story.find<StepDown>() != nullptr);
  REQUIRE(story.find<StepDown>()->by != nullptr);
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
}

TEST_CASE("A call names the job, its instance, and the voter that is called") {
  message::Follow call = call_of(Term{2});
  CHECK(call_is_for(call, VoterId{1}, kJob, "job"));
  CHECK_FALSE(call_is_for(call, VoterId{2}, kJob, "job"));
  CHECK_FALSE(call_is_for(call, VoterId{1}, JobInstance{77}, "job"));
  CHECK_FALSE(call_is_for(call, VoterId{1}, kJob, "another"));
  CHECK(call_is_for(call, VoterId{1}, JobInstance{}, "job"));  // it knows of no job
  call.to_endpoint = message::JobOptions{};
  CHECK(call_is_for(call, VoterId{2}, kJob, "job"));
  CHECK_FALSE(call_is_for(call, VoterId{2}, JobInstance{77}, "job"));
}

TEST_CASE("A coordinator with a world keeps it, whatever a leader of another instance calls") {
  LeaderStory story;
  story.join_other();
  REQUIRE(story.leader.membership().leadership().instance_is_settled());
  const auto steps_down = [&](std::uint64_t session, const message::Follow& call) {
    story.step(SessionOpened{NodeId{session}, false, "10.0.0.3"});
    story.step(SessionTold{NodeId{session}, call});
    const auto* answer = story.find<SendAndClose>();
    REQUIRE(answer != nullptr);
    const auto& moved = std::get<message::Moved>(*answer->message);
    CHECK(moved.from == VoterId{1});
    CHECK(moved.instance == kJob);
    return story.find<StepDown>() != nullptr;
  };
  message::Follow call = call_of(Term{5}, JobInstance{77});
  CHECK_FALSE(steps_down(10, call));
  call.to_endpoint = message::JobOptions{2, 2, 0, false};
  CHECK_FALSE(steps_down(11, call));
  call = call_of(Term{5});
  call.voter = VoterId{9};  // a life before this one
  CHECK_FALSE(steps_down(12, call));
  CHECK(steps_down(13, call_of(Term{5})));
}

TEST_CASE("A node of a job of another instance is told that this one is another") {
  LeaderStory story;
  story.join_other();
  NodeDescription node = LeaderStory::describe(3);
  node.past = Past{};
  node.past->instance = JobInstance{77};
  story.step(SessionOpened{NodeId{3}, false, "10.0.0.3"});
  story.step(SessionTold{NodeId{3}, message::Hello{node}});
  REQUIRE(story.find<SendAndClose>() != nullptr);
  const auto* moved = std::get_if<message::Moved>(story.find<SendAndClose>()->message.get());
  REQUIRE(moved != nullptr);
  CHECK(is_of_another_job(*moved, node));
  CHECK(story.leader.members() == std::vector<NodeId>{kOwn, kOther});
}
