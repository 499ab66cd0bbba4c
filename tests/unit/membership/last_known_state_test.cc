// What an agent remembers of its job, and what a coordinator that begins without any state makes of
// it.
#include "rendezvous/membership/last_known_state.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

constexpr VoterId kSelf{1};

MembershipOptions begins(int nodes, int max_restarts) {
  MembershipOptions options = fixed(nodes, max_restarts);
  options.self = kSelf;
  return options;
}

/// A story of a job with so many nodes, each of which prepares for whatever is planned.
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
      node.promise = {node.past->term, VoterId{99}, node.past->configuration};
    }
    here.push_back(s.join(node));
    return here.back();
  }
  /// What the planned world needs is told and prepared.
  void agree() {
    if (!s.job().leadership().planning()) {
      return;
    }
    told = s.all<TellStandbys>().empty() ? told : s.all<TellStandbys>().front();
    const ConfigurationNumber planned = s.job().leadership().planned().number;
    for (const NodeId node : s.job().leadership().standbys()) {
      s.apply(StandbyKnows{node, planned});
    }
    for (const NodeId node : here) {
      if (s.job().leadership().planning()) {
        s.apply(ConfigurationPrepared{node, planned});
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
  TellStandbys told;
};

/// A standby of a coordinator that had spent so many restarts.
LastKnownState standby(int restarts_used, Term term = Term{1}, std::uint32_t attempt = 4) {
  LastKnownState memory;
  const ConfigurationNumber number = make_configuration(term, VoterId{9}, 1);
  memory.announced(term, {}, number, 2, true);
  memory.assigned(term, AttemptNumber{attempt}, number, 1, true);
  ReplicatedState state;
  state.term = term;
  state.coordinator = VoterId{9};
  state.attempt = AttemptNumber{attempt};
  JobSummary so_far;
  so_far.attempts = static_cast<int>(attempt) + 1;
  so_far.restarts_used = restarts_used;
  so_far.incidents.resize(static_cast<std::size_t>(restarts_used));
  memory.told(state, so_far, 50s);
  memory.lost(60s, true, 3s);
  return memory;
}

}  // namespace

TEST_CASE("A coordinator that begins anew goes on with the budget and the history of a standby") {
  Votes job(begins(2, 1));
  job.join(1);
  job.s.wait(10s);
  const NodeId survivor = job.join(2, standby(1), 62s);
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  CHECK(job.s.world_of(survivor).restarts_used == 1);
  REQUIRE(job.s.job().record().incidents().size() == 2);
  CHECK(job.s.job().record().incidents().back().kind == IncidentKind::coordinator_lost);
  CHECK(job.s.job().record().incidents().back().parts.detect == 2s);
  CHECK(job.s.job().record().attempts() == 6);
  job.all_stop(survivor);
  job.agree();
  const JobSummary summary = job.s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::failed);
  CHECK(summary.reason.find("the only restart is spent") != std::string::npos);
  CHECK(summary.attempts == 6);
  CHECK(summary.incidents.size() == 3);
}

TEST_CASE("Of two standbys the one that was told last counts, whoever comes first") {
  const bool newer_first = GENERATE(false, true);
  Votes job(begins(3, 9));
  job.join(1);
  job.join(2, newer_first ? standby(5, Term{1}, 7) : standby(3, Term{1}, 4));
  job.join(3, newer_first ? standby(3, Term{1}, 4) : standby(5, Term{1}, 7));
  CHECK(job.s.job().restarts_used() == 5);
  CHECK(job.s.job().record().incidents().size() == 6);  // and the coordinator's loss, once
}

TEST_CASE("What a coordinator has told by itself it is not told again") {
  Votes job(begins(2, 1));
  job.join(1);
  LastKnownState memory = standby(1);
  ReplicatedState own;
  own.coordinator = kSelf;
  own.term = Term{2};
  memory.told(own, {}, 70s);
  job.join(2, memory);
  CHECK(job.s.job().restarts_used() == 0);
}

TEST_CASE("Standbys are told the state of the restart policy, and their hellos are small") {
  MembershipOptions options = begins(2, 9);
  options.restarts.window = RestartWindow{3, 100s};
  Votes job(options);
  job.join(1);
  job.join(2);
  job.agree();
  REQUIRE(job.s.state() == JobState::running);
  job.all_stop(job.here[1]);
  JobSummary so_far = job.s.only<TellStory>().so_far;
  CHECK(so_far.restart_state.spent_ago == std::vector<std::chrono::nanoseconds>{0s});
  so_far.incidents.front().records = {killed(0), killed(1), killed(2)};
  LastKnownState memory;
  memory.told({}, so_far, 0s);
  NodeDescription node;
  memory.fill(node);
  CHECK(node.history->so_far.incidents.front().records.size() == 1);
  CHECK(node.history->so_far.incidents.front().records_dropped == 2);
}
