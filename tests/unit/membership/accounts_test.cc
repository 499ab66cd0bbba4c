// Where the time went, as the state machine finds it out from what nodes say.
#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

TrainingProgress stepped(std::chrono::nanoseconds after, std::int64_t steps) {
  TrainingProgress told;
  told.told = true;
  told.first_step_after = after;
  told.steps = steps;
  return told;
}

std::chrono::nanoseconds downtime_by(const JobSummary& summary, IncidentKind kind) {
  return summary.accounts.track().downtime[static_cast<std::size_t>(kind)];
}

}  // namespace

TEST_CASE("A failure is dated by its age, and the wait for a replacement is rendezvous") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(b);
  s.wait(10s);
  s.failed(b, killed(1, 4ms));
  s.lose(b);
  s.wait(1s);
  s.stopped(a);
  s.wait(30s);
  const NodeId c = s.join("n3");
  s.wait(2s);
  s.started(a);
  s.started(c);
  s.wait(5s);
  s.finished(a);
  s.finished(c);
  const JobSummary summary = *s.only<FinishJob>().summary;
  const Incident& incident = summary.incidents.at(0);
  CHECK(incident.kind == IncidentKind::worker_failed);
  CHECK(incident.parts == BreakDown{4ms, 1s, 30s, 2s});
  CHECK(incident.downtime == incident.parts.sum());
  CHECK(summary.accounts.wall == 48s);
  CHECK(summary.accounts.track().productive == 10s - 4ms + 5s);
}

TEST_CASE("A silence counts from when it began") {
  Story s(elastic(1, 2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(b);
  s.wait(10s);
  s.lose(b, 3s);
  s.stopped(a);
  s.started(a);
  s.finished(a);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.incidents.at(0).kind == IncidentKind::node_lost);
  CHECK(summary.incidents.at(0).parts == BreakDown{3s, 0s, 0s, 0s});
  CHECK(downtime_by(summary, IncidentKind::node_lost) == 3s);
}

TEST_CASE("Growth is downtime of its own kind") {
  Story s(elastic(1, 2));
  const NodeId a = s.join("n1");
  s.wait(30s);
  s.time_passed();
  s.started(a);
  s.wait(1s);
  const NodeId b = s.join("n2");
  s.wait(2s);
  s.stopped(a);
  s.started(a);
  s.started(b);
  s.finished(a);
  s.finished(b);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(downtime_by(summary, IncidentKind::node_joined) == 2s);
  CHECK(summary.accounts.track().startup == 30s);
}

TEST_CASE(
    "Progress that is told while workers run is in the accounts, each node's first step once") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(b);
  s.wait(5s);
  s.apply(WorkersProgress{a, s.attempt(), stepped(2s, 10)});
  s.apply(WorkersProgress{a, s.attempt(), stepped(2s, 11)});
  CHECK_FALSE(s.job().record().ledger().first_step_after());
  s.apply(WorkersProgress{b, s.attempt(), stepped(3s, 10)});
  CHECK(s.job().record().ledger().first_step_after() == 3s);
  s.apply(WorkersProgress{b, AttemptNumber{7}, stepped(9s, 10)});  // of no attempt of ours
  s.apply(WorkersProgress{NodeId{99}, s.attempt(), stepped(9s, 10)});
  s.finished(a);
  s.apply(WorkersProgress{a, s.attempt(), stepped(9s, 10)});  // late
  s.finished(b);
  const Accounts accounts = s.only<FinishJob>().summary->accounts;
  CHECK(accounts.track().startup == 3s);
  CHECK(accounts.track().productive == 2s);
  CHECK(accounts.steps == 11);
}

TEST_CASE("What is saved on the way to a stop is kept, and the way is no training") {
  Story s(fixed(1));
  const NodeId a = s.join("n1");
  s.started(a);
  s.apply(WorkersProgress{a, s.attempt(), stepped(0s, 1)});
  s.wait(10s);
  s.apply(StopRequested{a, 15});
  s.wait(4s);
  TrainingProgress last = stepped(0s, 100);
  last.saved = SnapshotNumber::epoch(0);
  last.saved_after = 12s;
  last.steps_at_save = 100;
  s.stopped(a, {}, last);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.accounts.track().productive == 10s);
  CHECK(summary.accounts.track().replayed == 0s);
  CHECK(downtime_by(summary, IncidentKind::ending) == 4s);
}

namespace {

/// A job of two nodes that vote, in its first attempt.
struct TwoVoters {
  explicit TwoVoters(const MembershipOptions& options = with_failover()) : s(options) {
    for (const std::uint64_t i : {1U, 2U}) {
      NodeDescription node = s.description("n" + std::to_string(i));
      node.voter = VoterId{i};
      nodes.push_back(s.join(node));
    }
    const auto configuration = s.only<Replicate>().replicated.configuration.number;
    for (const NodeId id : nodes) {
      s.apply(StateAcknowledged{id, configuration});
    }
    REQUIRE(s.state() == JobState::running);
  }
  static MembershipOptions with_failover() {
    MembershipOptions options = fixed(2);
    options.self = VoterId{1};
    return options;
  }

  Story s;
  std::vector<NodeId> nodes;
};

}  // namespace

TEST_CASE("Standbys are told of progress within an attempt, every five seconds at most") {
  TwoVoters job;
  Story& s = job.s;
  const NodeId a = job.nodes[0];
  const NodeId b = job.nodes[1];
  s.started(a);
  s.started(b);
  s.wait(4s);
  s.apply(WorkersProgress{a, s.attempt(), stepped(1s, 10)});
  CHECK(s.all<TellStory>().empty());
  s.wait(1s);
  s.apply(WorkersProgress{b, s.attempt(), stepped(1s, 12)});
  const TellStory told = s.only<TellStory>();
  CHECK(told.voters == std::vector{b, a});
  CHECK(told.so_far->accounts.ran_by_step);
  CHECK(told.so_far->accounts.steps == 12);
}

TEST_CASE("Standbys are told of an attempt's first step at once, and of no other one") {
  TwoVoters job;
  Story& s = job.s;
  s.started(job.nodes[0]);
  s.started(job.nodes[1]);
  s.wait(2s);
  s.apply(WorkersProgress{job.nodes[0], s.attempt(), stepped(1s, 1)});
  CHECK(s.all<TellStory>().empty());
  s.apply(WorkersProgress{job.nodes[1], s.attempt(), stepped(2s, 1)});
  const auto so_far = s.only<TellStory>().so_far;
  CHECK(so_far->accounts.ran_by_step);
  s.wait(1s);
  s.apply(WorkersProgress{job.nodes[0], s.attempt(), stepped(1s, 9)});
  CHECK(s.all<TellStory>().empty());

  JobHistory successor;
  successor.inherit(*so_far, s.now());
  s.wait(3s);
  successor.ended(Incident{}, {s.now(), s.now(), s.now()});
  const Accounts accounts = successor.so_far(s.now()).accounts;
  CHECK(accounts.by_step.startup == 2s);
  CHECK(accounts.by_step.replayed == 3s);
  CHECK(accounts.by_step.down() == 0s);
}

TEST_CASE("Voters store that an attempt has started, also of workers that report no progress") {
  TwoVoters job;
  Story& s = job.s;
  s.wait(1s);
  s.started(job.nodes[0]);
  CHECK(s.all<TellStory>().empty());
  s.started(job.nodes[1]);
  const TellStory first = s.only<TellStory>();
  CHECK(first.so_far->accounts.ran_by_start);
  CHECK(first.so_far->accounts.by_start.startup == 1s);
  s.started(job.nodes[1]);
  CHECK(s.all<TellStory>().empty());

  s.wait(10s);
  s.failed(job.nodes[0], killed(0));
  s.stopped(job.nodes[0]);
  s.wait(11ms);
  s.stopped(job.nodes[1]);
  REQUIRE(s.attempt() == AttemptNumber{1});
  s.started(job.nodes[0]);
  s.started(job.nodes[1]);
  const JobSummary so_far = *s.only<TellStory>().so_far;
  REQUIRE(so_far.incidents.size() == 1);
  CHECK(so_far.incidents.front().next_attempt == AttemptNumber{1});
  CHECK(so_far.incidents.front().downtime == 11ms);
  CHECK(so_far.accounts.ran_by_start);
  CHECK(so_far.accounts.by_start.productive == 10s);
}

TEST_CASE("A successor counts the time of workers that report no progress as training") {
  TwoVoters job;
  Story& s = job.s;
  s.started(job.nodes[0]);
  s.wait(1s);
  s.started(job.nodes[1]);
  JobHistory successor;
  successor.inherit(*s.only<TellStory>().so_far, s.now());
  s.wait(9s);
  IncidentInstants lost;
  lost.happened = lost.detected = lost.stopped = s.now();
  successor.ended(Incident{}, lost);
  const JobSummary so_far = successor.so_far(s.now());
  CHECK(so_far.accounts.by_start.productive == 9s);
  CHECK(so_far.accounts.by_start.startup == 1s);
}
