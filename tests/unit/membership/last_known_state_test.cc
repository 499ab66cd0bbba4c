// What an agent remembers of its job, and what a coordinator that begins without any state makes of
// it.
#include "rendezvous/membership/last_known_state.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

constexpr VoterId kSelf{1};
constexpr VoterId kOld{99};  ///< the coordinator before

MembershipOptions begins(int nodes, int max_restarts) {
  MembershipOptions options = fixed(nodes, max_restarts);
  options.self = kSelf;
  return options;
}

/// A story of a job with so many nodes, each of which acknowledges whatever is planned.
class Votes {
 public:
  explicit Votes(const MembershipOptions& options) : s(options) {}

  NodeId join(std::uint64_t voter, const LastKnownState& memory = {}, Instant said_at = {}) {
    NodeDescription node = s.description("n" + std::to_string(voter));
    node.voter = VoterId{voter};
    node.hosts_coordinator = node.voter == kSelf;
    node.said_at = said_at;
    memory.fill(node);
    if (node.past) {
      node.promise = {node.past->term, kOld, node.past->configuration};
    }
    here.push_back(s.join(node));
    return here.back();
  }
  void agree() {
    for (const NodeId node : here) {
      if (s.job().leadership().planning()) {
        s.apply(StateAcknowledged{node, s.job().leadership().planned().number});
      }
    }
  }
  void all_stop(NodeId failed) {
    s.failed(failed, killed(0));
    for (const NodeId node : here) {
      s.stopped(node);
    }
  }

  Story s;
  std::vector<NodeId> here;
};

constexpr JobInstance kJob{42};
constexpr HostIdentity kHost{3, 4, 5};

/// What the old coordinator told in the attempt: the voters are itself and others, from 2 on.
ReplicatedState state_of(int voters, std::uint32_t attempt = 0) {
  ReplicatedState state;
  state.term = Term{1};
  state.coordinator = kOld;
  state.attempt = AttemptNumber{attempt};
  state.instance = kJob;
  state.configuration.number = make_configuration(Term{1}, kOld, attempt + 1);
  for (int i = 2; i <= voters; ++i) {
    state.configuration.voters.push_back(VoterId{static_cast<std::uint64_t>(i)});
  }
  state.configuration.voters.push_back(kOld);
  return state;
}

Past world_of(const ReplicatedState& state, int nodes) {
  Past past{state.term, state.attempt, state.configuration.number, 1, nodes - 1};
  past.instance = state.instance;
  return past;
}

/// A voter of a world of so many nodes, whose coordinator was at the endpoint; lost at 60 s.
LastKnownState member(int nodes, bool saw_close, std::chrono::milliseconds heartbeat_timeout = 3s) {
  LastKnownState memory;
  const ReplicatedState state = state_of(nodes);
  memory.follows(true, kHost);
  memory.told(state, {}, 50s);
  memory.assigned(world_of(state, nodes));
  memory.lost(60s, saw_close, heartbeat_timeout);
  return memory;
}

/// A voter of a coordinator that had spent so many restarts.
LastKnownState voter(int restarts_used, int nodes = 2, std::uint32_t attempt = 4) {
  LastKnownState memory;
  const ReplicatedState state = state_of(nodes, attempt);
  JobSummary so_far;
  so_far.attempts = static_cast<int>(attempt) + 1;
  so_far.restarts_used = restarts_used;
  so_far.incidents.resize(static_cast<std::size_t>(restarts_used));
  memory.follows(true, kHost);
  memory.told(state, so_far, 50s);
  memory.assigned(world_of(state, nodes));
  memory.lost(60s, true, 3s);
  return memory;
}

}  // namespace

TEST_CASE("A coordinator that begins anew goes on with the budget and the history of a voter") {
  Votes job(begins(2, 1));
  job.join(1);
  job.s.wait(10s);
  const NodeId survivor = job.join(2, voter(1), 62s);
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  CHECK(job.s.world_of(survivor).restarts_used == 1);
  REQUIRE(job.s.job().record().incidents().size() == 2);
  CHECK(job.s.job().record().incidents().back().kind == IncidentKind::coordinator_lost);
  CHECK(job.s.job().record().incidents().back().parts.detect == 2s);
  CHECK(job.s.job().record().attempts() == 6);
  job.all_stop(survivor);
  job.agree();
  const JobSummary summary = *job.s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::failed);
  CHECK(summary.reason.find("the only restart is spent") != std::string::npos);
  CHECK(summary.attempts == 6);
  CHECK(summary.incidents.size() == 3);
}

TEST_CASE("A coordinator that begins anew is of the instance that a node remembers, if one does") {
  MembershipOptions options = begins(2, 1);
  options.instance = JobInstance{7};
  const bool remembers = GENERATE(false, true);
  Votes job(options);
  job.join(1);
  CHECK_FALSE(job.s.job().leadership().instance_is_settled());
  job.join(2, remembers ? voter(1) : LastKnownState{}, 62s);
  const JobInstance instance = remembers ? kJob : JobInstance{7};
  CHECK(job.s.job().leadership().instance_is_settled());
  CHECK(job.s.job().leadership().in_use().instance == instance);
  CHECK(job.s.only<Replicate>().replicated.instance == instance);
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  CHECK(job.s.all<AssignWorld>().front().instance == instance);
}

TEST_CASE("A world of another instance makes a node forget what it kept of the one before") {
  LastKnownState memory = voter(1);
  Past other = *memory.past();
  other.instance = JobInstance{43};
  memory.assigned(other);
  NodeDescription node;
  memory.fill(node);
  CHECK(node.past->instance == JobInstance{43});
  CHECK_FALSE(node.copy.has_value());
}

TEST_CASE("Of two voters the one that was told last counts, whoever comes first") {
  const bool newer_first = GENERATE(false, true);
  Votes job(begins(3, 9));
  job.join(1);
  job.join(2, newer_first ? voter(5, 3, 7) : voter(3, 3, 4));
  job.join(3, newer_first ? voter(3, 3, 4) : voter(5, 3, 7));
  CHECK(job.s.job().restarts_used() == 5);
  CHECK(job.s.job().record().incidents().size() == 6);  // and the coordinator's loss, once
}

TEST_CASE("A host is the same by kernel and network, or by machine when it was started again") {
  CHECK(is_same_host(kHost, kHost));
  CHECK(is_same_host(kHost, {3, 4, 0}));
  CHECK_FALSE(is_same_host(kHost, {3, 9, 5}));  // another container of that machine
  CHECK(is_same_host(kHost, {9, 9, 5}));        // started again
  CHECK_FALSE(is_same_host(kHost, {9, 4, 8}));
  CHECK_FALSE(is_same_host({3, 4, 0}, {9, 4, 0}));
  CHECK_FALSE(is_same_host({}, {}));
  CHECK_FALSE(is_same_host({0, 4, 5}, {0, 4, 5}));
}

TEST_CASE("A job that waits for a quorum when its last call is over does not say that it starts") {
  MembershipOptions options = begins(4, 0);
  options.min_nodes = 1;
  options.last_call_timeout = 1s;
  Votes job(options);
  job.join(1);
  job.join(2, member(4, false));
  job.s.wait(2s);
  job.s.time_passed();
  const RendezvousStatus table = *job.s.all<TellWaiting>().back().table;
  CHECK(table.waits_for == RendezvousStatus::For::nodes);
  CHECK(table.left > options.last_call_timeout);
  CHECK_THAT(table.note, Catch::Contains("of the 4 nodes that decide for the job are here"));
}

TEST_CASE("Without a quorum neither the last call nor the end of a lease promises a start") {
  MembershipOptions options = begins(4, 0);
  options.min_nodes = 1;
  options.last_call_timeout = 30s;
  Votes job(options);
  job.s.wait(60s);
  job.join(1);
  job.join(2, member(4, false, 300s), 61s);
  job.s.wait(2s);
  job.s.time_passed();
  const RendezvousStatus early = *job.s.all<TellWaiting>().back().table;
  CHECK(early.waits_for == RendezvousStatus::For::nodes);
  CHECK(early.left > options.last_call_timeout);
  job.s.wait(40s);
  job.s.time_passed();
  const std::string note = job.s.all<TellWaiting>().back().table->note;
  CHECK_THAT(note, Catch::Contains("a node of the world before is not here, and may run workers "
                                   "until its lease is over"));
  CHECK_THAT(note, !Catch::Contains("next attempt"));
  job.s.wait(600s);
  job.s.time_passed();
  CHECK(job.s.only<FinishJob>().summary->reason.ends_with(
      "are needed; start the job again with the same command on every node: it resumes from its "
      "last snapshot"));
}

TEST_CASE("What a coordinator has told by itself it is not told again") {
  Votes job(begins(2, 1));
  job.join(1);
  LastKnownState memory = voter(1);
  ReplicatedState own;
  own.coordinator = kSelf;
  own.term = Term{2};
  memory.told(own, {}, 70s);
  job.join(2, memory);
  CHECK(job.s.job().restarts_used() == 0);
}

TEST_CASE("A voter that was away is told what it missed") {
  Votes job(begins(4, 1));
  for (const std::uint64_t voter : {1U, 2U, 3U, 4U}) {
    job.join(voter);
  }
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  job.s.finished(job.here[2]);  // so that its loss stops nobody
  job.s.lose(job.here[2]);
  SECTION("while an attempt runs others vote from then on") {
    const NodeId again = job.join(3);
    const Replicate told = job.s.only<Replicate>();
    CHECK(told.replicated.configuration.voters ==
          std::vector<VoterId>{VoterId{1}, VoterId{2}, VoterId{4}});
    CHECK(std::count(told.voters.begin(), told.voters.end(), again) == 1);
  }
  SECTION("while it is stopped the voter is told the state in use") {
    job.s.failed(job.here[1], killed(1));
    REQUIRE(job.s.state() == JobState::stopping);
    const NodeId again = job.join(3);
    const Replicate told = job.s.only<Replicate>();
    CHECK(told.replicated.configuration.voters.size() == 4);
    CHECK(std::count(told.voters.begin(), told.voters.end(), again) == 1);
  }
}

TEST_CASE("A node of a world remembers which configuration votes for it by now") {
  LastKnownState memory = member(3, false);
  const ConfigurationNumber before = memory.past()->configuration;
  ReplicatedState later = state_of(3, number(memory.past()->attempt));
  later.configuration.number = make_configuration(Term{9}, kOld, 2);
  memory.told(later, {}, 70s);
  CHECK(memory.past()->configuration == before);  // it may come to nothing
  later.settled = later.configuration.number;
  memory.told(later, {}, 71s);
  CHECK(memory.past()->configuration == later.configuration.number);
  later.attempt = AttemptNumber{number(later.attempt) + 1};
  later.configuration.number = later.settled = make_configuration(Term{9}, kOld, 3);
  memory.told(later, {}, 72s);
  CHECK(memory.past()->configuration != later.configuration.number);  // it is in no such world yet
}

TEST_CASE("Voters are told the state of the restart policy, and their hellos are small") {
  MembershipOptions options = begins(2, 9);
  options.restarts.window = RestartWindow{3, 100s};
  Votes job(options);
  job.join(1);
  job.join(2);
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  job.all_stop(job.here[1]);
  JobSummary so_far = *job.s.only<TellStory>().so_far;
  CHECK(so_far.restart_state.spent_ago == std::vector<std::chrono::nanoseconds>{0s});
  so_far.incidents.front().records = {killed(0), killed(1), killed(2)};
  LastKnownState memory;
  memory.told({}, so_far, 0s);
  NodeDescription node;
  memory.fill(node);
  CHECK(node.copy->so_far.incidents.front().records.size() == 1);
  CHECK(node.copy->so_far.incidents.front().records_dropped == 2);
}

TEST_CASE("A coordinator that begins anew waits for workers of a node that is not here") {
  const bool saw_close = GENERATE(false, true);
  MembershipOptions options = begins(4, 0);
  options.heartbeat_timeout = 3s;
  Votes job(options);
  job.s.wait(100s);
  job.join(1);
  job.join(2, member(4, saw_close), 61s);
  job.join(3, member(4, false, 5s), 60s + 500ms);
  job.s.wait(100ms);
  job.join(5);  // a spare that knows nothing
  CHECK_FALSE(job.s.job().leadership().planning());
  const RendezvousStatus table = *job.s.only<TellWaiting>().table;
  CHECK(table.note.find("a node of the world before is not here") == 0);
  // The newest contact is half a second old, and the longest lease is one of 5 s.
  CHECK(job.s.job().next_deadline() <= 104s + 500ms);
  job.s.wait(4s + 300ms);
  job.s.time_passed();
  CHECK_FALSE(job.s.job().leadership().planning());
  job.s.wait(100ms);
  job.s.time_passed();
  job.agree();
  CHECK(job.s.state() == JobState::running);
}

TEST_CASE("A coordinator that begins anew begins no second world with spares alone") {
  Votes job(begins(2, 3));
  job.join(1);
  LastKnownState spare;
  spare.follows(true, kHost);
  Past told = world_of(state_of(2, 4), 2);
  told.group_rank.reset();
  spare.assigned(told);
  spare.lost(60s, true, 3s);
  const NodeId came = job.join(3, spare, 62s);
  CHECK_FALSE(job.s.job().leadership().planning());
  CHECK(job.s.job().leadership().in_use().instance == kJob);
  job.s.wait(60s);
  job.s.time_passed();
  CHECK_FALSE(job.s.job().leadership().planning());
  const NodeId survivor = job.join(2, voter(1), 70s);
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  CHECK(job.s.world_of(survivor).attempt > AttemptNumber{4});
  CHECK(job.s.world_of(survivor).restarts_used == 1);
  // It is told of the world that it is not in: two nodes are all that the job wants.
  CHECK(job.s.only<TellWorld>().nodes == std::vector<NodeId>{came});
  CHECK(job.s.only<TellWorld>().attempt == job.s.attempt());
}

TEST_CASE("Who comes while a world runs is told of it, unless nobody else votes") {
  const int nodes = GENERATE(1, 2);
  Votes job(begins(nodes, 3));
  for (int i = 1; i <= nodes; ++i) {
    job.join(static_cast<std::uint64_t>(i));
  }
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  job.join(9);
  CHECK(job.s.all<TellWorld>().size() == (nodes == 1 ? 0 : 1));
}

TEST_CASE("A coordinator that begins anew waits for nothing when all nodes are here") {
  const int nodes = GENERATE(2, 3);
  MembershipOptions options = begins(nodes, 0);
  options.heartbeat_timeout = 3s;
  Votes job(options);
  job.join(1);
  for (int i = 2; i <= nodes; ++i) {
    job.join(static_cast<std::uint64_t>(i), member(nodes, nodes == 2), 60s);
  }
  CHECK(job.s.job().leadership().planning());
}

TEST_CASE("Of two nodes the old coordinator may have gone on with another one than the survivor") {
  MembershipOptions options = begins(2, 0);
  options.heartbeat_timeout = 3s;
  Votes job(options);
  job.s.wait(1s);
  job.join(1);
  job.join(2, member(2, false), 90s);  // it lost it half a minute ago, and does not know how
  CHECK_FALSE(job.s.job().leadership().planning());
  job.s.wait(1s + 900ms);
  job.s.time_passed();
  CHECK_FALSE(job.s.job().leadership().planning());
  job.s.wait(100ms);  // 3 s since this one began
  job.s.time_passed();
  CHECK(job.s.job().leadership().planning());
}

TEST_CASE("By whom the old coordinator's end was seen, it is known when the last lease began") {
  OldWorldFence fence(100s, 3s);
  Past past = *member(4, false).past();
  fence.told(past, 90s);
  CHECK(fence.over_at() == 103s);  // it may have lived until this one took its port
  past.saw_close = true;
  fence.told(past, 95s);
  CHECK(fence.over_at() == 98s);
  past.configuration = make_configuration(Term{2}, VoterId{8}, 1);
  past.at_endpoint = past.saw_close =
      false;  // elsewhere: more than half of its voters have left it
  past.heartbeat_timeout = 4s;
  fence.told(past, 99s);
  CHECK(fence.over_at() == 103s);
}
