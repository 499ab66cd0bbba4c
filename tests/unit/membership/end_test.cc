// The end of a job with failover: decided, made known to a quorum, and only then told.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

MembershipOptions with_failover(MembershipOptions options) {
  options.self = VoterId{1};
  return options;
}

/// Three nodes that run; that of options.self hosts the coordinator.
struct Three {
  explicit Three(const MembershipOptions& options = with_failover(elastic(1, 3)))
      : self(options.self), s(options) {}

  NodeId join(std::uint64_t voter) {
    NodeDescription node = s.description("n" + std::to_string(voter));
    node.voter = VoterId{voter};
    node.hosts_coordinator = node.voter == self;
    return s.join(std::move(node));
  }
  /// These keep what is planned.
  void all_acknowledge(const std::vector<NodeId>& nodes) {
    const ConfigurationNumber planned = s.only<Replicate>().replicated.configuration.number;
    for (const NodeId node : nodes) {
      s.apply(StateAcknowledged{node, planned});
    }
  }
  void run() {
    a = join(1);
    b = join(2);
    c = join(3);
    all_acknowledge({a, b});
    REQUIRE(s.state() == JobState::running);
    s.apply(StateAcknowledged{c, s.job().leadership().in_use().configuration.number});
  }
  void finish_all() {
    s.finished(a);
    s.finished(b);
    s.finished(c);
  }

  VoterId self;
  Story s;
  NodeId a{}, b{}, c{};
};

/// A successor on node 2 of one that ran three nodes and had decided this.
TakeoverState ended(Verdict verdict, const std::string& reason) {
  TakeoverState inherited;
  const VoterId lost{1};
  inherited.known = {Term{1},
                     Term{1},
                     lost,
                     AttemptNumber{4},
                     {make_configuration(Term{1}, lost, 2), {VoterId{1}, VoterId{2}, VoterId{3}}},
                     {},
                     make_configuration(Term{1}, lost, 2),
                     true};
  inherited.first_attempt = AttemptNumber{6};
  inherited.so_far.verdict = verdict;
  inherited.so_far.reason = reason;
  inherited.so_far.attempts = 5;
  inherited.expected = 2;
  inherited.patience = 3s;
  inherited.why = "its connection closed";
  return inherited;
}

}  // namespace

TEST_CASE("The end goes to the voters, and to all once a quorum keeps it") {
  Three t;
  t.run();
  t.finish_all();
  CHECK(t.s.state() == JobState::ending);
  const auto told = t.s.only<Replicate>();
  CHECK(told.voters == std::vector<NodeId>{t.b, t.c, t.a});
  CHECK(told.replicated.ends);
  CHECK(told.so_far->verdict == Verdict::succeeded);
  const ConfigurationNumber end = told.replicated.configuration.number;
  CHECK(end > t.s.job().leadership().in_use().configuration.number);
  t.s.apply(StateAcknowledged{t.a, end});
  CHECK(t.s.commands.empty());
  t.s.apply(StateAcknowledged{t.c, end});
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
  CHECK(t.s.state() == JobState::over);
}

TEST_CASE("A node that is lost while the end is made known begins that anew, after a pause") {
  Three t;
  t.run();
  t.finish_all();
  const ConfigurationNumber first = t.s.only<Replicate>().replicated.configuration.number;
  t.s.lose(t.c);
  CHECK(t.s.commands.empty());
  t.s.apply(StateAcknowledged{t.b, first});
  CHECK(t.s.commands.empty());
  REQUIRE(t.s.job().next_deadline());
  t.s.wait(*t.s.job().next_deadline() - t.s.now());
  t.s.time_passed();
  CHECK(t.s.only<Replicate>().replicated.configuration.number > first);
  t.all_acknowledge({t.a, t.b});
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
  CHECK(t.s.only<FinishJob>().summary->incidents.empty());
}

/// As after a stall of the coordinator: c gave it up, and has finished, or lost, its workers.
TEST_CASE("The end waits for a member that lives and let go of its coordinator") {
  MembershipOptions options = with_failover(elastic(1, 3));
  options.heartbeat_timeout = 3s;
  Three t(options);
  t.run();
  const bool lets_go_first = GENERATE(true, false);
  t.s.finished(t.c);
  if (lets_go_first) {
    t.s.lose(t.c);
  }
  t.s.finished(t.a);
  t.s.finished(t.b);
  if (!lets_go_first) {
    t.s.lose(t.c);  // while the end is being committed
  }
  REQUIRE(t.s.state() == JobState::ending);
  CHECK(t.s.all<FinishJob>().empty());
  const bool comes_back = GENERATE(true, false);
  const Instant lost_at = t.s.now();
  if (comes_back) {
    t.s.wait(1s);
    t.join(3);
  }
  for (int i = 0; i < 10 && t.s.all<Replicate>().empty(); ++i) {
    REQUIRE(t.s.job().next_deadline());
    t.s.wait(std::max<Instant>(*t.s.job().next_deadline() - t.s.now(), 1ms));
    t.s.time_passed();
  }
  const auto waited = t.s.now() - lost_at;
  INFO("comes back " << comes_back << ", lets go first " << lets_go_first << ", waited "
                     << waited.count());
  CHECK((comes_back ? waited < 2s : waited >= 3s));
  t.all_acknowledge({t.a, t.b});
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
}

TEST_CASE("The end waits for no node that is dead for certain") {
  MembershipOptions options = with_failover(elastic(1, 3));
  options.heartbeat_timeout = 3s;
  Three t(options);
  t.run();
  t.s.finished(t.c);
  t.s.apply(NodeLost{t.c, "its connection closed", {}, true, {}});
  t.s.finished(t.a);
  t.s.finished(t.b);
  t.all_acknowledge({t.a});  // the dead vote for nobody else
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
}

TEST_CASE("A witness that is lost votes no more, and people are told") {
  Three t(with_failover(elastic(1, 3)));
  t.run();
  NodeDescription description = t.s.description("w");
  description.witness = true;
  description.voter = VoterId{9};
  const NodeId witness = t.s.join(description);
  t.all_acknowledge({t.a, t.b, t.c, witness});
  REQUIRE(holds(t.s.job().leadership().in_use().configuration, VoterId{9}));
  t.s.lose(witness);
  CHECK(t.s.only<TellIncident>().nodes == std::vector<NodeId>{t.a});
  CHECK(t.s.only<TellIncident>().text.find("the witness w was lost") != std::string::npos);
  t.all_acknowledge({t.a, t.b, t.c});
  CHECK_FALSE(holds(t.s.job().leadership().in_use().configuration, VoterId{9}));
  CHECK(t.s.state() == JobState::running);
}

TEST_CASE("A spare votes where fewer than three others do") {
  Three t(with_failover(fixed(2)));
  t.a = t.join(1);
  t.b = t.join(2);
  t.all_acknowledge({t.a, t.b});
  const auto voters = [&t] { return t.s.job().leadership().in_use().configuration.voters; };
  REQUIRE(voters() == std::vector<VoterId>{VoterId{1}, VoterId{2}});
  t.c = t.join(3);
  CHECK(t.s.only<TellWaiting>().nodes == std::vector<NodeId>{t.c});
  t.all_acknowledge({t.a, t.b, t.c});
  REQUIRE(voters() == std::vector<VoterId>{VoterId{1}, VoterId{2}, VoterId{3}});
  const NodeId fourth = t.join(4);
  CHECK(t.s.all<Replicate>().empty());

  SECTION("another takes its place when it is lost, and people are told") {
    t.s.lose(t.c);
    CHECK(t.s.only<TellIncident>().nodes == std::vector<NodeId>{t.a});
    CHECK(t.s.only<TellIncident>().text.find("the spare n3 was lost") != std::string::npos);
    t.all_acknowledge({t.a, t.b, fourth});
    CHECK(voters() == std::vector<VoterId>{VoterId{1}, VoterId{2}, VoterId{4}});
  }
  SECTION("it leaves once others vote in its place") {
    t.s.apply(StopRequested{t.c, 12, StopWish::leave});
    CHECK(t.s.all<Release>().empty());
    t.all_acknowledge({t.a, t.b, fourth});
    CHECK(voters() == std::vector<VoterId>{VoterId{1}, VoterId{2}, VoterId{4}});
  }
  SECTION("what was planned with one that is lost at once is planned without it") {
    t.s.lose(fourth);
    t.s.lose(t.c);
    t.all_acknowledge({t.a, t.b});
    const NodeId fifth = t.join(5);
    CHECK(t.s.only<Replicate>().replicated.configuration.voters.size() == 3);
    t.s.lose(fifth);
    CHECK(t.s.all<TellIncident>().empty());
    CHECK(t.s.only<Replicate>().replicated.configuration.voters.size() == 2);
  }
  CHECK(t.s.state() == JobState::running);
}

TEST_CASE("A spare on the coordinator's host does not vote: both would be lost at once") {
  const auto [address, votes] = GENERATE(table<std::string, bool>(
      {{"10.0.0.1", false}, {"127.0.0.1", false}, {"::1", false}, {"10.0.0.3", true}}));
  Three t(with_failover(fixed(2)));
  NodeDescription own = t.s.description("n1");
  own.voter = VoterId{1};
  own.hosts_coordinator = true;
  own.addresses = {"192.168.0.1", "10.0.0.1"};
  t.a = t.s.join(std::move(own));
  t.b = t.join(2);
  t.all_acknowledge({t.a, t.b});
  NodeDescription spare = t.s.description("n3");
  spare.voter = VoterId{3};
  t.s.apply(NodeJoined{NodeId{30}, std::move(spare), address});
  CHECK(t.s.job().leadership().planning() == votes);
}

TEST_CASE("An end that no quorum can be told waits for one, and says so") {
  Three t;
  t.run();
  t.s.finished(t.b);
  t.s.finished(t.c);
  t.s.lose(t.b, 3s);
  t.s.lose(t.c, 3s);
  t.s.finished(t.a);
  CHECK(t.s.state() == JobState::ending);
  CHECK(t.s.commands.empty());

  SECTION("until it is back") {
    const NodeId back = t.join(3);
    CHECK(t.s.only<Replicate>().voters == std::vector<NodeId>{back, t.a});
    t.all_acknowledge({t.a, back});
    CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
  }
  SECTION("until somebody asks the agent to end") {
    t.s.apply(StopRequested{t.a, 15, StopWish::end});
    CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::stopped);
    CHECK(t.s.only<FinishJob>().summary->stop_signal == 15);
  }
  SECTION("up to the join timeout") {
    t.s.wait(*t.s.job().next_deadline() - t.s.now());
    t.s.time_passed();
    CHECK(t.s.only<TellWaiting>().table->note ==
          "the job is over, and this is being made known: 1 of the 3 nodes that decide for the "
          "job are here, 2 are needed");
    t.s.wait(600s);
    t.s.time_passed();
    const JobSummary summary = *t.s.only<FinishJob>().summary;
    CHECK(summary.verdict == Verdict::impossible);
    CHECK(summary.reason.starts_with("all workers exited with 0; but "));
  }
}

TEST_CASE("Who is asked to end while all are told that the job succeeded changes nothing") {
  Three t;
  t.run();
  t.finish_all();
  const ConfigurationNumber end = t.s.only<Replicate>().replicated.configuration.number;
  t.s.apply(StopRequested{t.b, 15, StopWish::end});
  CHECK(t.s.commands.empty());
  t.s.apply(StateAcknowledged{t.b, end});
  t.s.apply(StateAcknowledged{t.c, end});
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
}

TEST_CASE("Who is asked to end waits for no quorum: the job may go on elsewhere") {
  Three t;
  t.run();
  SECTION("while it gathers") {
    t.s.lose(t.b, 3s);
    t.s.lose(t.c, 3s);
    t.s.stopped(t.a);
    REQUIRE(t.s.state() == JobState::gathering);
    t.s.apply(StopRequested{t.a, 2, StopWish::end});
  }
  SECTION("while its workers stop") {
    t.s.apply(StopRequested{t.a, 2, StopWish::end});
    t.s.lose(t.b, 3s);
    t.s.lose(t.c, 3s);
    t.s.stopped(t.a);
  }
  SECTION("while the end is made known") {
    t.s.apply(StopRequested{t.a, 2, StopWish::end});
    t.s.stopped(t.a);
    t.s.stopped(t.b);
    t.s.stopped(t.c);
    REQUIRE(t.s.state() == JobState::ending);
    t.s.lose(t.b, 3s);
    t.s.lose(t.c, 3s);
  }
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::stopped);
}

TEST_CASE("A first gathering that is stopped, of which nobody else knows, ends at once") {
  Three t(with_failover(fixed(4)));
  t.a = t.join(1);
  t.b = t.join(2);
  t.s.apply(StopRequested{t.b, 15, StopWish::end});
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::stopped);
}

TEST_CASE("What agents ask a successor again ends the job when all are here to be told") {
  MembershipOptions options = with_failover(elastic(1, 3));
  options.self = VoterId{2};
  options.term = Term{2};
  options.inheritance = ended(Verdict::failed, "rank 1 on n2 exited with 3");
  Three t(options);
  const NodeId own = t.join(2);
  const auto wish = GENERATE(StopWish::preempt, StopWish::end);
  t.s.apply(StopRequested{own, 15, wish});
  CHECK(t.s.all<FinishJob>().empty());  // the other would not be told
  const NodeId other = t.join(3);
  CHECK(t.s.only<Replicate>().replicated.ends);
  t.all_acknowledge({own, other});
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::failed);
}

TEST_CASE("A successor tells the end that was decided before it, and hands out no world") {
  MembershipOptions options = with_failover(elastic(1, 3));
  options.self = VoterId{2};
  options.term = Term{2};
  const auto verdict = GENERATE(Verdict::failed, Verdict::stopped);
  options.inheritance = ended(verdict, "rank 1 on n2 exited with 3");
  Three t(options);
  const NodeId own = t.join(2);
  CHECK(t.s.only<Welcome>().node == own);  // and nothing else: those that voted are on their way
  const NodeId other = t.join(3);
  CHECK(t.s.only<Replicate>().replicated.ends);
  t.all_acknowledge({own, other});
  const JobSummary summary = *t.s.only<FinishJob>().summary;
  CHECK(summary.verdict == verdict);
  CHECK(summary.reason == "rank 1 on n2 exited with 3");
  CHECK(summary.attempts == 5);
  CHECK(summary.incidents.empty());  // the job lost nothing with its coordinator
}
