// Preemption, nodes that leave in order, and growth that saves first.
#include <catch2/catch.hpp>

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

constexpr int kUsr1 = 10;
constexpr int kUsr2 = 12;
constexpr int kTerm = 15;

MembershipOptions elastic(int max = 3) {
  MembershipOptions options;
  options.job_id = "job";
  options.min_nodes = 1;
  options.max_nodes = max;
  options.max_restarts = 2;
  options.last_call_timeout = 1s;
  return options;
}

TrainingProgress told(bool left, bool complete = false) {
  TrainingProgress progress;
  progress.told = true;
  progress.left = left;
  progress.complete = complete;
  return progress;
}

/// The node that hosts the coordinator.
NodeId join_host(Story& s, bool witness = false) {
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  host.witness = witness;
  return s.join(host);
}

/// Three nodes that run.
struct Three {
  Story s{elastic()};
  NodeId a = s.join("n1");
  NodeId b = s.join("n2");
  NodeId c = s.join("n3");
  Three() { REQUIRE(s.state() == JobState::running); }
};

}  // namespace

TEST_CASE("a preemption asks every member to save, and ends the job when all have left") {
  Three t;
  t.s.apply(StopRequested{t.b, kUsr1, StopWish::preempt});
  REQUIRE(t.s.all<StopWorkers>().size() == 3);
  CHECK(t.s.all<StopWorkers>()[0].how == StopHow::preempt);
  CHECK(t.s.all<StopWorkers>()[0].signal == kUsr1);
  CHECK(t.s.all<StopWorkers>()[0].reason == "SIGUSR1 was sent to the agent of node n2");
  t.s.stopped(t.a, {}, told(true));
  t.s.stopped(t.b, {}, told(true));
  CHECK(t.s.all<FinishJob>().empty());
  t.s.stopped(t.c, {}, told(true));
  const JobSummary summary = *t.s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::preempted);
  CHECK(summary.restarts_used == 0);
  CHECK(summary.incidents.empty());
}

TEST_CASE("a notice that a node's machine goes is told to all, and saves as a deadline does") {
  Three t;
  t.s.apply(StopRequested{t.b, 0, StopWish::preempt, "gcp: the VM is preempted"});
  REQUIRE(t.s.all<StopWorkers>().size() == 3);
  CHECK(t.s.all<StopWorkers>()[0].how == StopHow::preempt);
  CHECK(t.s.all<StopWorkers>()[0].reason ==
        "node n2 has a preemption notice (gcp: the VM is preempted)");
  for (const NodeId id : {t.a, t.b, t.c}) {
    t.s.stopped(id);
  }
  // Scripts that just ended may not have saved, but what is announced is sent to be started again.
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("a preemption of workers that were just done is their success") {
  Three t;
  t.s.finished(t.a);
  t.s.apply(StopRequested{t.b, kTerm, StopWish::preempt});
  for (const NodeId id : {t.a, t.b, t.c}) {
    t.s.stopped(id, {}, told(false, true));
  }
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::succeeded);
}

TEST_CASE("SIGTERM that ended workers which know of no orders stopped the job, as in torchrun") {
  const auto verdict = [](int signal) {
    Three t;
    t.s.apply(StopRequested{t.b, signal, StopWish::preempt});
    t.s.stopped(t.a);
    t.s.stopped(t.b);
    t.s.stopped(t.c);
    return t.s.only<FinishJob>().summary->verdict;
  };
  CHECK(verdict(kTerm) == Verdict::stopped);
  CHECK(verdict(kUsr1) == Verdict::preempted);
  CHECK(verdict(0) == Verdict::preempted);
}

TEST_CASE("a worker that fails while others save makes them stop now: no step can end without it") {
  Three t;
  t.s.apply(StopRequested{t.a, kTerm, StopWish::preempt});
  t.s.failed(t.b, killed(1));
  REQUIRE(t.s.all<StopWorkers>().size() == 3);
  CHECK(t.s.all<StopWorkers>()[0].how == StopHow::now);
  t.s.stopped(t.a, {}, told(false));
  CHECK(t.s.all<StopWorkers>().empty());  // once
  t.s.stopped(t.b, {}, told(false));
  t.s.stopped(t.c, {}, told(false));
  const JobSummary summary = *t.s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::preempted);
  REQUIRE(summary.incidents.size() == 1);
  CHECK(summary.incidents[0].reason == "rank 1 on n2 was killed by SIGKILL");
  CHECK_FALSE(summary.incidents[0].spent_restart);
}

TEST_CASE("a node that is lost while others save makes them stop now") {
  Three t;
  t.s.apply(StopRequested{t.a, kTerm, StopWish::preempt});
  t.s.lose(t.c);
  REQUIRE(t.s.ordered_to_stop() == std::vector<NodeId>{t.a, t.b});
  t.s.stopped(t.a, {}, told(true));
  t.s.stopped(t.b, {}, told(false));
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("a node that is lost when it has saved leaves the others their save") {
  Three t;
  t.s.apply(StopRequested{t.a, kTerm, StopWish::preempt});
  t.s.stopped(t.c, {}, told(true));
  t.s.lose(t.c);
  CHECK(t.s.commands.empty());
  t.s.stopped(t.a, {}, told(true));
  t.s.stopped(t.b, {}, told(true));
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("of scripts that SIGTERM has save, those of a lost node are not asked how they ended") {
  struct Row {
    bool lost_first;  // and the warning meets the stop for that loss
    bool saved;
    Verdict verdict;
  };
  const Row row =
      GENERATE(Row{false, true, Verdict::preempted}, Row{false, false, Verdict::stopped},
               Row{true, true, Verdict::preempted}, Row{true, false, Verdict::stopped});
  TrainingProgress script;
  script.left = row.saved;
  Three t;
  if (row.lost_first) {
    t.s.lose(t.c);
  }
  t.s.apply(StopRequested{t.a, kTerm, StopWish::preempt});
  if (!row.lost_first) {
    t.s.lose(t.c);
  }
  t.s.stopped(t.a, {}, script);
  t.s.stopped(t.b, {}, script);
  CHECK(t.s.only<FinishJob>().summary->verdict == row.verdict);
}

TEST_CASE("a witness that is asked to leave is released, and the attempt goes on") {
  Three t;
  NodeDescription description = t.s.description("w");
  description.witness = true;
  const NodeId witness = t.s.join(description);
  t.s.apply(StopRequested{witness, kUsr2, StopWish::leave});
  const auto released = t.s.only<Release>();
  CHECK(released.node == witness);
  CHECK(released.so_far->verdict == Verdict::left);
  CHECK(t.s.ordered_to_stop().empty());
  t.s.apply(StopRequested{witness, kUsr2, StopWish::leave});
  CHECK(t.s.commands.empty());
  t.s.lose(witness);
  CHECK(t.s.state() == JobState::running);
  CHECK(t.s.all<TellIncident>().empty());  // nobody was lost
}

TEST_CASE("a witness that leads is told why it stays when it is asked to leave") {
  Three t;
  NodeDescription description = t.s.description("w");
  description.witness = description.hosts_coordinator = true;
  const NodeId witness = t.s.join(description);
  t.s.apply(StopRequested{witness, kUsr2, StopWish::leave});
  CHECK(t.s.only<TellWaiting>().table->note.find("stays as the coordinator") != std::string::npos);
}

TEST_CASE("a preemption while nodes gather ends the job at once, to go on another time") {
  MembershipOptions options = elastic(2);
  options.min_nodes = 2;
  Story s(options);
  const NodeId a = s.join("n1");
  s.apply(StopRequested{a, kTerm, StopWish::preempt});
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("the end of a job that gathers waits a little for nodes that are still starting") {
  MembershipOptions options = elastic(2);
  options.min_nodes = 2;
  options.heartbeat_timeout = 3s;
  const bool stops = GENERATE(false, true);
  Story s(options);
  const NodeId a = s.join("n1");
  s.apply(StopRequested{a, stops ? 2 : kTerm, stops ? StopWish::end : StopWish::preempt});
  CHECK(s.all<FinishJob>().empty());
  SECTION("the last one comes, and is told") {
    s.join("n2");
  }
  SECTION("none comes") {
    s.wait((stops ? 1s : 3s) - 1ms);
    s.time_passed();
    CHECK(s.all<FinishJob>().empty());
    s.wait(1ms);
    s.time_passed();
  }
  CHECK(s.only<FinishJob>().summary->verdict == (stops ? Verdict::stopped : Verdict::preempted));
}

TEST_CASE("a stop while the end of a job that gathers is put off tells the end at once") {
  MembershipOptions options = elastic(2);
  options.min_nodes = 2;
  options.heartbeat_timeout = 3s;
  Story s(options);
  const NodeId a = s.join("n1");
  struct Row {
    StopRequested first;
    StopRequested second;
    Verdict verdict;
  };
  const StopRequested usr1{a, kUsr1, StopWish::preempt};
  const Row row =
      GENERATE_COPY(Row{{a, kTerm, StopWish::preempt}, {a, kTerm, StopWish::end}, Verdict::stopped},
                    Row{{a, 2, StopWish::end}, {a, 2, StopWish::end}, Verdict::stopped},
                    Row{usr1, {a, kTerm, StopWish::preempt}, Verdict::preempted});
  s.apply(row.first);
  REQUIRE(s.all<FinishJob>().empty());
  s.apply(row.second);
  CHECK(s.only<FinishJob>().summary->verdict == row.verdict);
}

TEST_CASE("a preemption during a restart ends the job when all have stopped") {
  Three t;
  t.s.failed(t.b, killed(1));
  t.s.apply(StopRequested{t.a, kUsr1, StopWish::preempt});
  CHECK(t.s.commands.empty());
  for (const NodeId id : {t.a, t.b, t.c}) {
    t.s.stopped(id);
  }
  const JobSummary summary = *t.s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::preempted);
  CHECK(summary.restarts_used == 0);
}

TEST_CASE("workers that left because somebody signalled them preempt the job") {
  Three t;
  t.s.finished(t.a, told(true));
  t.s.finished(t.b, told(true));
  t.s.finished(t.c, told(true));
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("a stop wins over a preemption, and all hear of it, with the signal") {
  Three t;
  t.s.apply(StopRequested{t.a, kTerm, StopWish::preempt});
  t.s.stopped(t.c, {}, told(true));
  t.s.apply(StopRequested{t.b, 2, StopWish::end});
  CHECK(t.s.ordered_to_stop() == std::vector{t.a, t.b, t.c});  // c may lose this coordinator, too
  for (const StopWorkers& order : t.s.all<StopWorkers>()) {
    CHECK(order.how == StopHow::now);
    CHECK(order.signal == 2);
  }
  t.s.apply(StopRequested{t.a, 2, StopWish::end});
  CHECK(t.s.commands.empty());  // once
  t.s.stopped(t.a);
  t.s.stopped(t.b);
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::stopped);
}

TEST_CASE("a warning while a node leaves makes all save for the end of the job") {
  Three t;
  t.s.apply(StopRequested{t.c, kUsr2, StopWish::leave});
  t.s.apply(StopRequested{t.c, kTerm, StopWish::preempt});
  REQUIRE(t.s.all<StopWorkers>().size() == 3);
  CHECK(t.s.all<StopWorkers>()[0].how == StopHow::preempt);
  CHECK(t.s.all<StopWorkers>()[0].signal == kTerm);
  TrainingProgress script;
  script.left = true;
  for (const NodeId id : {t.a, t.b, t.c}) {
    t.s.stopped(id, {}, script);
  }
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("what only a job is sent that is to be started again counts more than SIGTERM") {
  const bool first = GENERATE(false, true);
  Three t;
  t.s.apply(StopRequested{t.a, first ? kUsr1 : kTerm, StopWish::preempt});
  t.s.apply(StopRequested{t.b, first ? kTerm : kUsr1, StopWish::preempt});
  for (const NodeId id : {t.a, t.b, t.c}) {
    t.s.stopped(id);  // they did not save
  }
  CHECK(t.s.only<FinishJob>().summary->verdict == Verdict::preempted);
  CHECK(t.s.only<FinishJob>().summary->stop_signal == kUsr1);
}

TEST_CASE("a node leaves in order: all save, the others go on, nothing is spent") {
  Three t;
  t.s.apply(StopRequested{t.c, 12, StopWish::leave});
  REQUIRE(t.s.all<StopWorkers>().size() == 3);
  CHECK(t.s.all<StopWorkers>()[0].how == StopHow::save);
  CHECK(t.s.all<StopWorkers>()[0].reason == "node n3 leaves in order");
  for (const NodeId id : {t.a, t.b, t.c}) {
    t.s.stopped(id, {}, told(true));
  }
  CHECK(t.s.state() == JobState::running);
  CHECK(t.s.all<AssignWorld>().size() == 2);
  CHECK(t.s.world_of(t.a).world_size == 2);
  CHECK(t.s.only<Release>().node == t.c);
  CHECK(t.s.only<Release>().so_far->verdict == Verdict::left);
  t.s.lose(t.c);  // it closes; nobody minds
  CHECK(t.s.commands.empty());
  t.s.finished(t.a);
  t.s.finished(t.b);
  const JobSummary summary = *t.s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::succeeded);
  CHECK(summary.restarts_used == 0);
  REQUIRE(summary.incidents.size() == 1);
  CHECK_FALSE(summary.incidents[0].spent_restart);
}

TEST_CASE("a node that leaves below the minimum may go at once, and the others wait for another") {
  MembershipOptions options = elastic(2);
  options.min_nodes = 2;
  Story s(options);
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.apply(StopRequested{b, 12, StopWish::leave});
  s.stopped(a, {}, told(true));
  s.stopped(b, {}, told(true));
  CHECK(s.state() == JobState::gathering);
  CHECK(s.only<Release>().node == b);
  s.lose(b);
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->lost.empty());  // it left
  const NodeId c = s.join("n3");
  CHECK(s.state() == JobState::running);
  CHECK(s.world_of(c).world_size == 2);
}

TEST_CASE("a spare that is asked to leave leaves, and nothing stops for it") {
  Three t;
  const NodeId d = t.s.join("n4");
  t.s.apply(StopRequested{d, 12, StopWish::leave});
  CHECK(t.s.all<StopWorkers>().empty());
  CHECK(t.s.only<Release>().node == d);
  t.s.apply(StopRequested{d, 12, StopWish::leave});
  CHECK(t.s.commands.empty());  // told once
}

TEST_CASE("the node of the coordinator runs no workers any more when asked to leave, and stays") {
  Story s(elastic(2));
  const NodeId a = join_host(s);
  const NodeId b = s.join("n2");
  s.apply(StopRequested{a, 12, StopWish::leave});
  s.stopped(a, {}, told(true));
  s.stopped(b, {}, told(true));
  CHECK(s.all<Release>().empty());
  CHECK(s.only<AssignWorld>().node == b);
  CHECK(s.world_of(b).world_size == 1);
}

TEST_CASE("the last node that is asked to leave preempts the job") {
  Story s(elastic(1));
  const NodeId a = s.join("n1");
  s.apply(StopRequested{a, 12, StopWish::leave});
  CHECK(s.only<StopWorkers>().how == StopHow::preempt);
  s.stopped(a, {}, told(true));
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::preempted);
}

TEST_CASE("a job whose nodes were all asked to leave is preempted, in whichever order") {
  MembershipOptions options = elastic(2);
  options.min_nodes = 2;
  Story s(options);
  const NodeId a = join_host(s);
  const NodeId b = s.join("n2");
  const NodeId first = GENERATE_COPY(a, b);
  const NodeId second = first == a ? b : a;
  s.apply(StopRequested{first, kUsr2, StopWish::leave});
  const bool at_once = GENERATE(false, true);
  if (at_once) {
    s.apply(StopRequested{second, kUsr2, StopWish::leave});
  }
  s.stopped(a, {}, told(true));
  s.stopped(b, {}, told(true));
  if (!at_once) {
    CHECK(s.state() == JobState::gathering);
    s.apply(StopRequested{second, kUsr2, StopWish::leave});
  }
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::preempted);
  CHECK_THAT(s.only<FinishJob>().summary->reason,
             Catch::Contains("was asked to leave, and no other was here"));
}

TEST_CASE("the only node that gathers preempts the job when it is asked to leave") {
  MembershipOptions options = elastic(3);
  options.min_nodes = 3;
  Story s(options);
  const NodeId a = join_host(s, GENERATE(false, true));
  SECTION("alone") {
    s.apply(StopRequested{a, kUsr2, StopWish::leave});
    CHECK(s.only<FinishJob>().summary->verdict == Verdict::preempted);
  }
  SECTION("with another, for which it goes on as the coordinator") {
    s.join("n2");
    s.apply(StopRequested{a, kUsr2, StopWish::leave});
    CHECK(s.all<FinishJob>().empty());
    CHECK(s.only<TellWaiting>().nodes == std::vector{a});
  }
}

TEST_CASE("growth saves first, or not, or never comes, as --scale-up says") {
  const auto joined = [](ScaleUp when) {
    MembershipOptions options = elastic(2);
    options.scale_up = when;
    Story s(options);
    s.join("n1");
    s.wait(1s);
    s.time_passed();
    REQUIRE(s.state() == JobState::running);
    s.join("n2");
    return s.all<StopWorkers>();
  };
  CHECK(joined(ScaleUp::never).empty());
  REQUIRE(joined(ScaleUp::now).size() == 1);
  CHECK(joined(ScaleUp::now)[0].how == StopHow::now);
  REQUIRE(joined(ScaleUp::at_snapshot).size() == 1);
  CHECK(joined(ScaleUp::at_snapshot)[0].how == StopHow::save);
}

TEST_CASE("a node that leaves while the world with it is prepared is in none") {
  MembershipOptions options = elastic(2);
  options.min_nodes = 2;
  options.self = VoterId{1};
  Story s(options);
  const auto voter = [&](const std::string& host, std::uint64_t id) {
    NodeDescription node = s.description(host);
    node.voter = VoterId{id};
    node.hosts_coordinator = id == 1;
    return s.join(node);
  };
  (void)voter("n1", 1);
  const NodeId b = voter("n2", 2);
  const ConfigurationNumber planned = s.only<Replicate>().replicated.configuration.number;
  s.apply(StopRequested{b, 12, StopWish::leave});
  CHECK(s.only<Release>().node == b);
  s.apply(StateAcknowledged{b, planned});
  CHECK(s.commands.empty());
  CHECK(s.state() == JobState::gathering);
}
