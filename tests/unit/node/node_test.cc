#include "rendezvous/node/node.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/node/node_story.h"

using namespace ddprun;

TEST_CASE("A node searches at the endpoints of its job, and follows who accepts it") {
  NodeStory story;
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->places.front().host == "10.0.0.1");
  story.follow(Term{1});
  CHECK(story.find<FollowLeader>() != nullptr);
  CHECK(story.node().state() == Node::State::following);
}

TEST_CASE("Where a service decides, a node asks it, and leads once it is let") {
  NodeStory story(true, true);
  REQUIRE(story.find<AskService>() != nullptr);
  CHECK_FALSE(story.find<AskService>()->dead);
  CHECK(story.find<SearchLeader>() == nullptr);
  story.step(Appointed{Term{5}, kJob, std::nullopt, false});
  const auto* leads = story.find<BeginLeading>();
  REQUIRE(leads != nullptr);
  CHECK_FALSE(leads->takeover);
  CHECK(leads->term == Term{5});
  CHECK(leads->instance == kJob);
  CHECK(story.find<StopSearch>() != nullptr);
}

TEST_CASE("Where a service names a leader, a node goes there, and to a later one at once") {
  NodeStory story(true, true);
  story.step(CalledByLeader{call_of(Term{2})});
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->places.front().port == 4711);
  story.step(CalledByLeader{call_of(Term{2})});
  CHECK(story.actions.empty());
  story.step(CalledByLeader{call_of(Term{3})});
  CHECK(story.find<SearchLeader>() != nullptr);
  story.step(SearchFailed{Error{"nobody answers", {}, {}}});
  CHECK(story.find<AskService>() != nullptr);
}

TEST_CASE("By a service a node follows whoever leads, though the job was begun anew") {
  NodeStory story(true, true);
  story.follow(Term{2});
  story.lose(true);
  story.step(WorkersGone{});
  message::Follow call = call_of(Term{1});
  call.instance = JobInstance{99};
  story.step(CalledByLeader{call});
  CHECK(story.find<SearchLeader>() != nullptr);
}

TEST_CASE("A node that the service lets lead goes on with the committed state") {
  NodeStory story(true, true);
  story.follow(Term{1});
  story.lose(true);
  CHECK(story.find<FenceWorkers>() != nullptr);
  story.wait(100ms);
  story.step(WorkersGone{});
  // The kernel of its host has told that the leader of term 1 is dead. Nobody is asked for a vote.
  REQUIRE(story.find<AskService>() != nullptr);
  CHECK(story.find<AskService>()->dead == DeadLeader{Term{1}, kLeader});
  CHECK(story.find<AskVotes>() == nullptr);
  message::VoterState state;
  state.replicated.term = Term{1};
  state.replicated.attempt = AttemptNumber{3};
  state.replicated.configuration = {make_configuration(Term{1}, kLeader, 1), {kServiceVoter}};
  state.heartbeat_timeout = 3s;
  SECTION("before the lease of the lost one has ended: its workers are waited for") {
    story.step(Appointed{Term{3}, kJob, state, true});
    const auto* leads = story.find<BeginLeading>();
    REQUIRE(leads != nullptr);
    REQUIRE(leads->takeover);
    // From the loss on: others may have been in contact for longer than this node.
    CHECK(leads->takeover->state.leases_end_in == 3s);
    CHECK(leads->takeover->state.lost_for == 100ms);
  }
  SECTION("after it") {
    story.step(Appointed{Term{3}, kJob, state, false});
    const auto* leads = story.find<BeginLeading>();
    REQUIRE(leads != nullptr);
    REQUIRE(leads->takeover);
    CHECK(leads->takeover->term == Term{3});
    // Two terms may have handed out one attempt each that nobody here knows of, and one more.
    CHECK(leads->takeover->state.first_attempt == AttemptNumber{7});
    CHECK(leads->takeover->state.leases_end_in == 0ms);
  }
  SECTION("but not where it follows another by then") {
    story.step(CalledByLeader{call_of(Term{4})});
    story.follow(Term{4});
    story.step(Appointed{Term{3}, kJob, state, false});
    CHECK(story.find<BeginLeading>() == nullptr);
    CHECK(story.node().state() == Node::State::following);
  }
  SECTION("and the verdict of a job that it was no part of is not its own") {
    state.replicated.ends = true;
    state.replicated.instance = JobInstance{43};
    story.step(Appointed{Term{3}, kJob, state, false});
    REQUIRE(story.find<BeginLeading>() != nullptr);
    CHECK_FALSE(story.find<BeginLeading>()->takeover);
  }
}

TEST_CASE("What a service keeps of a job is as old as a member of that job knows") {
  NodeStory story(true, true);
  story.follow(Term{1});
  message::Assigned assigned;
  assigned.term = Term{1};
  assigned.instance = kJob;
  assigned.job_age = 5s;
  message::VoterState state;
  state.replicated.term = Term{1};
  state.replicated.instance = kJob;
  state.replicated.configuration = {make_configuration(Term{1}, kLeader, 1), {kServiceVoter}};
  state.heartbeat_timeout = 3s;
  state.so_far.accounts.wall = 7s;
  story.step(ToldByLeader{assigned});
  Instant told_ago{};
  SECTION("which was handed a world of it") {
    told_ago = 5s + 30s - 7s;
  }
  SECTION("and no younger than this moment, though the message was long on its way") {
    state.so_far.accounts.wall = 36s;
  }
  SECTION("and nobody knows it who was only told of that job") {
    const message::TellWorld other{AttemptNumber{1}, make_configuration(Term{1}, kLeader, 2),
                                   Term{1}, JobInstance{43}};
    state.replicated.instance = other.instance;
    story.step(ToldByLeader{other});
  }
  story.wait(30s);
  story.lose(true);
  story.step(WorkersGone{});
  story.step(Appointed{Term{3}, kJob, state, false});
  const auto* leads = story.find<BeginLeading>();
  REQUIRE(leads != nullptr);
  REQUIRE(leads->takeover);
  CHECK(leads->takeover->state.told_ago == told_ago);
}

TEST_CASE("A node that leads again tells why it had led no more") {
  NodeStory story(true, true);
  story.step(Appointed{Term{1}, kJob, std::nullopt, false});
  story.step(LeaderDeposed{"the service was gone for too long"});
  story.step(WorkersGone{});
  message::VoterState state;
  state.replicated.term = Term{1};
  state.replicated.instance = kJob;
  state.replicated.configuration = {make_configuration(Term{1}, kLeader, 1), {kServiceVoter}};
  state.heartbeat_timeout = 3s;
  story.step(Appointed{Term{2}, kJob, state, false});
  const auto* leads = story.find<BeginLeading>();
  REQUIRE(leads != nullptr);
  REQUIRE(leads->takeover);
  CHECK(leads->takeover->state.why == "the service was gone for too long");
}

TEST_CASE("A service that lets nobody lead ends the search with the join timeout") {
  NodeStory story(true, true);
  const auto due = story.node().next_deadline();
  REQUIRE(due.has_value());
  CHECK(*due == story.now + 600s);
  story.now = *due;
  story.step(NodeTimePassed{});
  CHECK(story.find<GiveUp>() != nullptr);
}

TEST_CASE("An answer that is half a lease old is not followed: the node comes again") {
  NodeStory story;
  story.wait(1600ms);
  story.step(HelloAccepted{{Term{1}, kLeader, 1}, "10.0.0.1:29400", story.now - 1600ms, true});
  CHECK(story.find<FollowLeader>() == nullptr);
  REQUIRE(story.node().next_deadline().has_value());
  story.now = *story.node().next_deadline();
  story.step(NodeTimePassed{});
  CHECK(story.find<SearchLeader>() != nullptr);
}

TEST_CASE("A node that loses its coordinator first stops its workers, and then searches") {
  NodeStory story;
  story.follow(Term{1});
  story.lose(true);
  CHECK(story.find<FenceWorkers>() != nullptr);
  CHECK(story.find<SearchLeader>() == nullptr);
  story.step(WorkersGone{});
  CHECK(story.find<CloseConnection>() != nullptr);
  CHECK(story.find<SearchLeader>() != nullptr);
}

TEST_CASE("A node without failover ends with its coordinator") {
  NodeStory story(false);
  story.follow(Term{1});
  story.lose(true);
  story.step(WorkersGone{});
  CHECK(story.find<GiveUp>() != nullptr);
  CHECK(story.node().state() == Node::State::over);
}

TEST_CASE("What a standby says of itself is said once, however often the state comes") {
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  REQUIRE(story.find<LogLine>() != nullptr);
  CHECK(story.find<LogLine>()->text == "this node is voter 1 of the job");
  story.be_standby();
  CHECK(story.find<AcknowledgeState>() != nullptr);
  CHECK(story.find<LogLine>() == nullptr);
}

TEST_CASE("A standby asks for votes, and leads with those of more than half") {
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  story.lose(true);
  story.step(WorkersGone{});
  const auto* asked = story.find<AskVotes>();
  REQUIRE(asked != nullptr);
  REQUIRE(asked->voters.size() == 1);
  const Term term = asked->request.term;
  CHECK(term == Term{2});
  Vote vote;
  vote.newest_term = term;
  vote.saw_close = true;
  story.step(VoteReceived{VoterId{9}, vote});
  const auto* leads = story.find<BeginLeading>();
  REQUIRE(leads != nullptr);
  REQUIRE(leads->takeover.has_value());
  CHECK(leads->takeover->term == term);
  CHECK(leads->takeover->votes.size() == 2);
  // Of the coordinator in this agent nobody at the endpoint knows that it is gone.
  CHECK(story.node().description().hosts_coordinator);
}

TEST_CASE("A standby that reaches no majority says so once, after two heartbeat timeouts") {
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  story.lose(false);
  story.step(WorkersGone{});
  const Instant lost_at = story.now;
  std::vector<std::pair<Instant, std::string>> warnings;
  while (story.now < lost_at + 60s) {
    const auto due = story.node().next_deadline();
    REQUIRE(due.has_value());
    story.now = std::max(*due, story.now);
    story.step(NodeTimePassed{});
    if (const auto* line = story.find<LogLine>()) {
      CHECK(line->warning);
      warnings.emplace_back(story.now, line->text);
    }
  }
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].first - lost_at >= 6s);
  CHECK(warnings[0].first - lost_at < 6s + 300ms);
  CHECK(warnings[0].second.find("no node can take over as the coordinator: 1 of 3 nodes were "
                                "reached, 2 are needed; waiting for the others for up to 59") == 0);
}

TEST_CASE("A node that is to leave stands for election after all other voters, and still votes") {
  const bool wished_before = GENERATE(true, false);
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  if (wished_before) {
    story.step(LeaveWished{});
  }
  story.lose(true);
  story.step(WorkersGone{});
  CHECK((story.find<AskVotes>() == nullptr) == wished_before);
  const Instant lost_at = story.now;
  Term asked_in{};
  if (!wished_before) {
    asked_in = story.find<AskVotes>()->request.term;
    story.step(LeaveWished{});
    CHECK(story.find<StopAsking>() != nullptr);
  }
  // A vote for the term before would have made it the leader.
  Vote vote;
  vote.newest_term = asked_in;
  vote.saw_close = true;
  story.step(VoteReceived{VoterId{9}, vote});
  CHECK(story.find<BeginLeading>() == nullptr);
  VoteRequest request{Term{5}, VoterId{9}, {}};
  request.log_position.settled = make_configuration(Term{1}, kLeader, 1);
  SECTION("another one stands meanwhile") {
    story.step(AskedByPeer{message::AskVote{"job", kSelf, request}});
    REQUIRE(story.find<AnswerPeer>() != nullptr);
    CHECK(std::get<message::VoteAnswer>(story.find<AnswerPeer>()->answer).vote.verdict ==
          VoteVerdict::granted);
  }
  SECTION("nobody else does") {
    while (story.find<AskVotes>() == nullptr) {
      REQUIRE(story.node().next_deadline().has_value());
      story.now = std::max(*story.node().next_deadline(), story.now);
      story.step(NodeTimePassed{});
    }
    CHECK(story.now - lost_at == 7 * 300ms);  // all places are before it
  }
}

TEST_CASE("A node that leads gives way to a leader of a later term, and follows it") {
  NodeStory story;
  story.step(EndpointBound{29400});
  REQUIRE(story.find<BeginLeading>() != nullptr);
  story.step(LeaderDeposed{"another leads", std::make_shared<message::Follow>(call_of(Term{2}))});
  CHECK(story.find<StopLeading>() != nullptr);
  CHECK(story.find<FenceWorkers>() != nullptr);
  story.step(WorkersGone{});
  const auto* search = story.find<SearchLeader>();
  REQUIRE(search != nullptr);
  CHECK(search->places.front().host == "10.0.0.2");
}

TEST_CASE("A candidate goes to the later leader that a voter names, and not again at once") {
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  story.lose(false);
  story.step(WorkersGone{});
  message::Moved leader{Term{1}, {"10.0.0.2"}, 4711, VoterId{9}, kJob};
  story.step(LeaderNamed{leader});  // the one that it lost: that voter has not noticed yet
  CHECK(story.actions.empty());
  leader.term = Term{4};
  leader.instance = JobInstance{77};
  story.step(LeaderNamed{leader});
  CHECK(story.actions.empty());
  leader.instance = kJob;
  story.step(LeaderNamed{leader});  // its first hello may be on the way to this very leader
  CHECK(story.actions.empty());
  story.wait(300ms);
  story.step(LeaderNamed{leader});
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->places.front().host == "10.0.0.2");
  CHECK(story.find<SearchLeader>()->places.front().port == 4711);
  story.wait(3s);
  story.step(SearchFailed{Error{"nobody answers", {}, {}}, false});
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->places.front().host == "10.0.0.1");
  story.step(LeaderNamed{leader});
  CHECK(story.actions.empty());
  story.wait(3s);
  story.step(LeaderNamed{leader});
  CHECK(story.find<SearchLeader>() != nullptr);
}

TEST_CASE("A voter that follows refuses a candidate, and says where its coordinator is") {
  NodeStory story;
  story.follow(Term{4});
  VoteRequest request{Term{3}, VoterId{9}, {}};
  story.step(AskedByPeer{message::AskVote{"job", kSelf, request}});
  REQUIRE(story.find<AnswerPeer>() != nullptr);
  const auto& answer = std::get<message::Moved>(story.find<AnswerPeer>()->answer);
  CHECK(answer.from == kSelf);
  CHECK(answer.term == Term{4});
  CHECK(answer.addresses == std::vector<std::string>{"10.0.0.1"});
  CHECK(answer.port == 29400);
}

TEST_CASE("A call to the endpoint is for a node without a world") {
  NodeStory story;
  story.step(CalledByLeader{call_of(Term{2}, true)});
  REQUIRE(story.find<SearchLeader>() != nullptr);
  CHECK(story.find<SearchLeader>()->places.front().host == "10.0.0.2");

  NodeStory follower;
  follower.follow(Term{1});
  follower.be_standby();
  follower.step(CalledByLeader{call_of(Term{2}, true)});
  CHECK(follower.actions.empty());
  follower.step(CalledByLeader{call_of(Term{2})});
  CHECK(follower.find<LeaveLeader>() != nullptr);
}

TEST_CASE("A node follows no call of another instance, and none for another life of its agent") {
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  message::Follow call = call_of(Term{2});
  call.instance = JobInstance{77};
  story.step(CalledByLeader{call});
  CHECK(story.actions.empty());
  CHECK(story.node().answer_to_call().instance == kJob);
  CHECK(story.node().answer_to_call().from == kSelf);
  call = call_of(Term{2});
  call.voter = VoterId{8};
  story.step(CalledByLeader{call});
  CHECK(story.actions.empty());
  // One that lost its coordinator, and searches, remembers its job.
  story.lose(true);
  story.step(WorkersGone{});
  call = call_of(Term{3}, true);
  call.instance = JobInstance{77};
  story.step(CalledByLeader{call});
  CHECK(story.actions.empty());
}

TEST_CASE("A leader that called and is gone is forgotten: the node does what it did before") {
  NodeStory story;
  story.step(EndpointBound{29400});
  story.step(LeaderDeposed{"another leads", std::make_shared<message::Follow>(call_of(Term{2}))});
  story.step(WorkersGone{});
  story.step(SearchFailed{Error{"nobody answers", {}, {}}, false});
  const auto* leads = story.find<BeginLeading>();
  REQUIRE(leads != nullptr);
  CHECK_FALSE(leads->at_bound_endpoint);
}

TEST_CASE("A node says of itself when and how it lost its coordinator") {
  NodeStory story;
  story.follow(Term{1});
  story.be_standby();
  story.lose(true);
  story.step(WorkersGone{});
  REQUIRE(story.node().description().past.has_value());
  CHECK(story.node().description().past->saw_close);
  CHECK(story.node().description().past->at_endpoint);
  CHECK(story.node().description().past->host == kHost);
  REQUIRE(story.node().description().copy.has_value());
  CHECK(story.node().description().copy->at_endpoint);
  CHECK(story.node().description().copy->host == kHost);
}

TEST_CASE("A node that was called knows from its coordinator whether that is at the endpoint") {
  for (const bool at_first_endpoint : {true, false}) {
    NodeStory story;
    story.step(CalledByLeader{call_of(Term{1})});
    story.step(HelloAccepted{
        {Term{1}, kLeader, 1, {}, kHost, at_first_endpoint}, "10.0.0.2:4711", story.now, true});
    story.be_standby();
    story.lose(false);
    story.step(WorkersGone{});
    REQUIRE(story.node().description().copy.has_value());
    CHECK(story.node().description().copy->at_endpoint == at_first_endpoint);
  }
}

TEST_CASE("A spare remembers the world that runs without it") {
  const message::TellWorld told{AttemptNumber{4}, make_configuration(Term{1}, kLeader, 2), Term{1},
                                kJob};
  NodeStory spare;
  spare.follow(Term{1});
  spare.step(ToldByLeader{told});
  spare.lose(true);
  spare.step(WorkersGone{});
  const NodeDescription& node = spare.node().description();
  REQUIRE(node.past.has_value());
  CHECK(node.past->attempt == told.attempt);
  CHECK(node.past->instance == kJob);
  CHECK_FALSE(node.past->group_rank.has_value());
  CHECK(node.past->at_endpoint);
  CHECK(node.past->saw_close);
  CHECK(node.promise.configuration == told.configuration);
  CHECK_FALSE(node.copy.has_value());
}

TEST_CASE("A node that was in a world remembers that one, and a newer one that it is told of") {
  NodeStory story;
  story.follow(Term{1});
  message::Assigned assigned;
  assigned.world.attempt = AttemptNumber{4};
  assigned.configuration = make_configuration(Term{1}, kLeader, 2);
  assigned.term = Term{1};
  assigned.instance = kJob;
  story.step(ToldByLeader{assigned});
  story.step(
      ToldByLeader{message::TellWorld{AttemptNumber{4}, assigned.configuration, Term{1}, kJob}});
  CHECK(story.node().known().past()->group_rank.has_value());
  story.step(ToldByLeader{message::TellWorld{
      AttemptNumber{5}, make_configuration(Term{1}, kLeader, 3), Term{1}, kJob}});
  CHECK(story.node().known().past()->attempt == AttemptNumber{5});
  CHECK_FALSE(story.node().known().past()->group_rank.has_value());
}

TEST_CASE("A node that is asked for the vote of a process before it says that it is another") {
  NodeStory story;
  message::AskVote ask{"job", VoterId{8}, {}};
  story.step(AskedByPeer{ask});
  REQUIRE(story.find<AnswerPeer>() != nullptr);
  CHECK(std::get<message::Moved>(story.find<AnswerPeer>()->answer).from == kSelf);
  ask.job_id = "another";
  story.step(AskedByPeer{ask});
  CHECK(story.find<AnswerPeer>() == nullptr);
  ask = {"job", kSelf, {}};
  story.step(AskedByPeer{ask});
  REQUIRE(story.find<AnswerPeer>() != nullptr);
  CHECK(std::holds_alternative<message::VoteAnswer>(story.find<AnswerPeer>()->answer));
}

TEST_CASE("A node that leads grants no vote, not even before its own coordinator accepted it") {
  const auto asked = [](NodeStory& story, std::uint32_t term) {
    VoteRequest request{Term{term}, VoterId{9}, {}};
    request.log_position.settled = make_configuration(Term{1}, kLeader, 1);
    story.step(AskedByPeer{message::AskVote{"job", kSelf, request}});
    REQUIRE(story.find<AnswerPeer>() != nullptr);
    return std::get<message::VoteAnswer>(story.find<AnswerPeer>()->answer).vote.verdict;
  };
  NodeStory begins;
  begins.step(EndpointBound{29400});
  REQUIRE(begins.find<BeginLeading>() != nullptr);
  CHECK(asked(begins, 9) == VoteVerdict::follows);
  // What its own hello says is what binds it.
  CHECK(begins.node().known().voter().promise() == begins.node().description().promise);

  NodeStory elected;
  elected.follow(Term{1});
  elected.be_standby();
  elected.lose(true);
  elected.step(WorkersGone{});
  Vote vote;
  vote.newest_term = Term{2};
  vote.saw_close = true;
  elected.step(VoteReceived{VoterId{9}, vote});
  REQUIRE(elected.find<BeginLeading>() != nullptr);
  CHECK(asked(elected, 9) == VoteVerdict::follows);
  CHECK(elected.node().known().voter().promise().term == Term{2});
  // One that leads no more is free to vote, as any that lost its coordinator.
  elected.step(LeaderDeposed{"it lost its quorum"});
  CHECK(asked(elected, 9) == VoteVerdict::follows);
  elected.step(WorkersGone{});
  CHECK(asked(elected, 9) == VoteVerdict::granted);
}
