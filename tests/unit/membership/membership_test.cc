#include "rendezvous/membership/membership.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

TEST_CASE("A fixed world starts the moment its last node joins") {
  Story s(fixed(2));
  const NodeId a = s.join("n1", 2);
  CHECK(s.all<AssignWorld>().empty());
  const NodeId b = s.join("n2", 2);
  CHECK(s.state() == JobState::running);
  CHECK(s.only<OpenStore>().attempt == AttemptNumber{0});
  CHECK(s.world_of(a).base_rank == 0);
  CHECK(s.world_of(b).base_rank == 2);
  CHECK(s.world_of(b).world_size == 4);
  CHECK_FALSE(s.job().next_deadline());
}

TEST_CASE("A node is welcomed before it is told anything else") {
  Story s(fixed(1));
  s.join("n1");
  REQUIRE(s.commands.size() == 3);
  CHECK(std::holds_alternative<Welcome>(s.commands[0]));
  CHECK(std::holds_alternative<OpenStore>(s.commands[1]));
  CHECK(std::holds_alternative<AssignWorld>(s.commands[2]));
}

TEST_CASE("The job succeeds when all workers of all nodes exited 0, and not before") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(b);
  s.finished(a);
  CHECK(s.state() == JobState::running);
  CHECK(s.commands.empty());
  s.finished(b);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::succeeded);
  CHECK(summary.attempts == 1);
  CHECK(summary.incidents.empty());
}

TEST_CASE("An unchanged world goes on the moment the last node says stopped, without a timer") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(b, killed(1));
  CHECK(s.ordered_to_stop() == std::vector{a, b});
  CHECK(s.all<StopWorkers>()[0].reason == "rank 1 on n2 was killed by SIGKILL");
  CHECK_FALSE(s.job().next_deadline());
  s.stopped(a, {after_stop(killed(0))});
  CHECK(s.all<AssignWorld>().empty());
  s.stopped(b, {killed(1)});
  CHECK(s.world_of(a).attempt == AttemptNumber{1});
  CHECK(s.world_of(a).restarts_used == 1);
  CHECK(s.world_of(b).base_rank == 1);
}

TEST_CASE("Two reports of failed workers within one incident spend one restart") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(b, killed(1));
  s.failed(a, exited(0, 1));
  s.stopped(a, {exited(0, 1)});
  s.stopped(b, {killed(1)});
  CHECK(s.job().restarts_used() == 1);
}

TEST_CASE("The job fails with the cause when the budget is spent (I-9: one job-wide budget)") {
  Story s(fixed(2, 1));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(a, killed(0));
  s.stopped(a);
  s.stopped(b);
  REQUIRE(s.state() == JobState::running);
  s.failed(b, exited(1, 3));
  s.stopped(a);
  s.stopped(b);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::failed);
  CHECK(summary.reason == "rank 1 on n2 exited with code 3; the only restart is spent");
  CHECK(summary.attempts == 2);
  CHECK(summary.restarts_used == 1);
  REQUIRE(summary.incidents.size() == 2);
  CHECK(summary.incidents[0].spent_restart);
  CHECK_FALSE(summary.incidents[1].spent_restart);
}

TEST_CASE("A lost node stops the survivors, who go on smaller without spending a restart (I-8)") {
  Story s(elastic(1, 2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.lose(b);
  CHECK(s.ordered_to_stop() == std::vector{a});
  s.stopped(a, {after_stop(killed(0))});
  CHECK(s.world_of(a).world_size == 1);
  CHECK(s.world_of(a).attempt == AttemptNumber{1});
  CHECK(s.job().restarts_used() == 0);
}

TEST_CASE("Below min the job waits for a replacement, and goes on with it at once") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.lose(b);
  s.stopped(a);
  CHECK(s.state() == JobState::gathering);
  CHECK(s.job().next_deadline());
  s.wait(100s);
  const NodeId c = s.join("n3");
  CHECK(s.world_of(a).attempt == AttemptNumber{1});
  CHECK(s.world_of(c).group_rank == 1);
}

TEST_CASE("No replacement within the join timeout ends the job and says who was here") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.wait(7s);
  s.lose(b);
  s.stopped(a);
  s.wait(600s);
  s.time_passed();
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::impossible);
  CHECK(summary.reason == "after 600 s only 1 of 2 nodes was here (n1); the last node lost was n2");
}

TEST_CASE("The join timeout names the node ranks that never came") {
  Story s(fixed(4));
  for (const int rank : {0, 2}) {
    auto d = s.description("n" + std::to_string(rank));
    d.node_rank = rank;
    s.join(d);
  }
  s.wait(600s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason ==
        "after 600 s only 2 of 4 nodes were here (n0, n2); missing: node rank 1, 3");
}

TEST_CASE("A node lost while stopping does not delay the next attempt") {
  Story s(elastic(1, 3));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  const NodeId c = s.join("n3");
  s.failed(c, killed(2));
  s.stopped(a);
  s.stopped(c, {killed(2)});
  CHECK(s.state() == JobState::stopping);
  s.lose(b);
  CHECK(s.world_of(a).group_world_size == 2);
  CHECK(s.world_of(c).base_rank == 1);
}

TEST_CASE("A node lost after it stopped is not in the next world") {
  Story s(elastic(1, 2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(a, killed(0));
  s.stopped(b);
  s.lose(b);
  s.stopped(a, {killed(0)});
  CHECK(s.all<AssignWorld>().size() == 1);
  CHECK(s.world_of(a).world_size == 1);
}

TEST_CASE("A node lost after its workers finished disturbs nobody (I-23)") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.finished(a);
  s.lose(a);
  CHECK(s.commands.empty());
  s.finished(b);
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::succeeded);
}

TEST_CASE("A failure after another node finished restarts both") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.finished(a);
  s.failed(b, killed(1));
  CHECK(s.ordered_to_stop() == std::vector{a, b});
  s.stopped(b, {killed(1)});
  s.stopped(a);
  CHECK(s.all<AssignWorld>().size() == 2);
}

TEST_CASE("Last call applies to the first gathering only (I-26)") {
  Story s(elastic(2, 4));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  CHECK(s.state() == JobState::gathering);
  s.wait(29s);
  s.time_passed();
  CHECK(s.state() == JobState::gathering);
  s.wait(1s);
  s.time_passed();
  REQUIRE(s.state() == JobState::running);
  s.failed(a, killed(0));
  s.stopped(a);
  s.stopped(b);
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A last call is taken back when a node leaves, and begins anew") {
  Story s(elastic(2, 4));
  s.join("n1");
  const NodeId b = s.join("n2");
  s.wait(20s);
  s.lose(b);
  s.wait(20s);
  s.time_passed();
  CHECK(s.state() == JobState::gathering);
  s.join("n3");
  s.wait(29s);
  s.time_passed();
  CHECK(s.state() == JobState::gathering);
  s.wait(1s);
  s.time_passed();
  CHECK(s.state() == JobState::running);
}

TEST_CASE("Reaching max ends the last call at once") {
  Story s(elastic(1, 2));
  s.join("n1");
  s.join("n2");
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A swarm that comes while a world is prepared costs a few plans, not one for each node") {
  constexpr int kSwarm = 1'000;
  MembershipOptions options = elastic(1, 10'000);
  options.self = VoterId{1};
  options.last_call_timeout = 0s;
  Story job(options);
  std::uint64_t voter = 0;
  const auto join = [&](bool host) {
    NodeDescription node = job.description("n" + std::to_string(voter));
    node.voter = VoterId{++voter};
    node.hosts_coordinator = host;
    return job.join(std::move(node));
  };
  std::vector<NodeId> nodes = {join(true)};
  std::size_t plans = 0;
  const auto count_plans = [&] { plans += job.all<Replicate>().size(); };
  CHECK(job.all<Replicate>().size() == 1);  // and the swarm comes meanwhile
  for (int i = 0; i < kSwarm; ++i) {
    job.wait(1ms);
    if (const auto due = job.job().next_deadline(); due && *due <= job.now()) {
      job.time_passed();
      count_plans();
    }
    nodes.push_back(join(false));
    count_plans();
  }
  CHECK(plans <= 10);
  // And then it goes on without another word from anybody.
  const auto due = job.job().next_deadline();
  REQUIRE(due);
  REQUIRE(*due - job.now() <= 640ms);
  job.wait(*due - job.now());
  job.time_passed();
  const Replicate told = job.only<Replicate>();
  CHECK(told.replicated.configuration.voters.size() == kVotersMax);
  for (const NodeId one : told.voters) {
    if (job.state() == JobState::gathering) {
      job.apply(StateAcknowledged{one, told.replicated.configuration.number});
    }
  }
  CHECK(job.all<AssignWorld>().size() == nodes.size());
}

TEST_CASE("A surplus node is a spare, is told so, and replaces a lost node (I-27)") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  const NodeId spare = s.join("n3");
  CHECK(s.only<TellWaiting>().nodes == std::vector{spare});
  CHECK(s.only<TellWaiting>().table->note.find("spare") != std::string::npos);
  CHECK(s.state() == JobState::running);
  s.lose(a);
  CHECK(s.ordered_to_stop() == std::vector{b});
  s.stopped(b);
  CHECK(s.world_of(b).group_rank == 0);
  CHECK(s.world_of(spare).group_rank == 1);
}

TEST_CASE("A spare that is lost, gives up or speaks of the attempt disturbs nobody") {
  Story s(fixed(1));
  s.join("n1");
  const NodeId spare = s.join("n2");
  s.failed(spare, killed(0));
  CHECK(s.commands.empty());
  s.apply(NodeGaveUp{spare, "the program is gone"});
  CHECK(s.commands.empty());
  s.lose(spare);
  CHECK(s.commands.empty());
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A spare does not displace a member, even when its name sorts first") {
  Story s(fixed(2));
  const NodeId b = s.join("n2");
  const NodeId c = s.join("n3");
  s.join("n1");
  s.failed(b, killed(0));
  s.stopped(b);
  s.stopped(c);
  CHECK(s.world_of(b).group_rank == 0);
  CHECK(s.world_of(c).group_rank == 1);
}

TEST_CASE("A late joiner below max grows the world without spending a restart") {
  Story s(elastic(1, 3));
  const NodeId a = s.join("n1");
  s.wait(30s);
  s.time_passed();
  REQUIRE(s.state() == JobState::running);
  const NodeId b = s.join("n2");
  CHECK(s.only<StopWorkers>().reason == "node n2 joined");
  const NodeId c = s.join("n3");
  s.stopped(a, {after_stop(killed(0))});
  CHECK(s.all<AssignWorld>().size() == 3);
  CHECK(s.world_of(a).base_rank == 0);
  CHECK(s.world_of(b).base_rank == 1);
  CHECK(s.world_of(c).base_rank == 2);
  CHECK(s.job().restarts_used() == 0);
}

TEST_CASE("The world does not grow once a node has finished its workers") {
  Story s(elastic(1, 3));
  const NodeId a = s.join("n1");
  s.join("n2");
  s.wait(30s);
  s.time_passed();
  s.finished(a);
  const NodeId c = s.join("n3");
  CHECK(s.only<TellWaiting>().nodes == std::vector{c});
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A stop request from any node ends the job in order everywhere") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.apply(StopRequested{b, 15});
  CHECK(s.ordered_to_stop() == std::vector{a, b});
  s.stopped(a, {after_stop(killed(0))});
  s.stopped(b);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::stopped);
  CHECK(summary.stop_signal == 15);
  CHECK(summary.reason == "SIGTERM was sent to the agent of node n2");
  CHECK(summary.restarts_used == 0);
}

TEST_CASE("A stop request while gathering ends the job at once") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  s.apply(StopRequested{a, 2});
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::stopped);
}

TEST_CASE("A stop request wins over a failure that it follows") {
  Story s(fixed(1, 0));
  const NodeId a = s.join("n1");
  s.failed(a, killed(0));
  s.apply(StopRequested{a, 15});
  s.stopped(a, {killed(0)});
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::stopped);
  REQUIRE(summary.incidents.size() == 1);
  CHECK_FALSE(summary.incidents[0].spent_restart);
}

TEST_CASE("A member that gives up ends the job with its reason") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.apply(NodeGaveUp{b, "./train: no such file"});
  s.stopped(a);
  s.stopped(b);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::impossible);
  CHECK(summary.reason == "node n2: ./train: no such file");
}

TEST_CASE("A store that cannot be opened ends the job with its reason") {
  Story s(fixed(1));
  s.join("n1");
  s.apply(StoreFailed{AttemptNumber{0}, "no port is free"});
  CHECK(s.only<FinishJob>().summary->reason == "no port is free");
}

TEST_CASE("What a node says of another attempt is ignored") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(a, killed(0));
  s.stopped(a);
  s.stopped(b);
  REQUIRE(s.attempt() == AttemptNumber{1});
  for (const AttemptNumber other : {AttemptNumber{0}, AttemptNumber{2}}) {
    s.apply(WorkerFailed{a, other, killed(0)});
    CHECK(s.commands.empty());
    s.apply(WorkersStopped{a, other, {killed(0)}, 0, {}});
    CHECK(s.commands.empty());
    s.apply(WorkersFinished{a, other, {}});
    CHECK(s.commands.empty());
    s.apply(StoreFailed{other, "late"});
    CHECK(s.commands.empty());
  }
  CHECK(s.state() == JobState::running);
}

TEST_CASE("Repeated reports change nothing") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(a);
  s.finished(a);
  s.finished(a);
  CHECK(s.state() == JobState::running);
  s.failed(b, killed(1));
  s.stopped(a);
  s.stopped(a);
  CHECK(s.state() == JobState::stopping);
}

TEST_CASE("Workers that stop unasked restart the job and spend a restart") {
  Story s(fixed(1, 1));
  const NodeId a = s.join("n1");
  s.stopped(a, {killed(0)});
  CHECK(s.world_of(a).attempt == AttemptNumber{1});
  s.stopped(a);
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::failed);
}

TEST_CASE("Workers that fail for a lost node spend nothing, though they report first") {
  Story s(elastic(1, 2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.wait(100s);
  FailureRecord record = exited(0, 1, 2s);
  SECTION("they say that they lost a peer") {
    record = peer_lost(record);
    s.failed(a, peer_lost(exited(0, 1)));
    s.lose(b);
  }
  SECTION("the node had fallen silent before them") {
    s.failed(a, exited(0, 1));
    s.wait(2s);
    s.lose(b, 3s);
  }
  s.stopped(a, {record});
  CHECK(s.state() == JobState::running);
  CHECK(s.job().restarts_used() == 0);
}

TEST_CASE("A node lost after a worker failed does not make the failure free") {
  Story s(elastic(1, 2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(a, exited(0, 1));
  s.wait(1s);
  s.lose(b);
  s.stopped(a, {exited(0, 1, 1s)});
  CHECK(s.job().restarts_used() == 1);
}

TEST_CASE("Downtime runs from detection until all workers of the next attempt have started") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(b);
  s.wait(10s);
  s.failed(b, killed(1));
  s.wait(5ms);
  s.stopped(a);
  s.stopped(b, {killed(1)});
  s.wait(3ms);
  s.started(a);
  s.wait(2ms);
  s.started(b);
  s.wait(10s);
  TrainingProgress told;
  SECTION("without the worker runtime") {
    s.finished(a);
    s.finished(b);
    CHECK(s.only<FinishJob>().summary->incidents.at(0).downtime == 10ms);
  }
  SECTION("to the first step where it is told") {
    told = {SnapshotNumber::epoch(20), 50, 0.25, 95ms};
    s.finished(b, {});
    s.finished(a, told);
    const JobSummary summary = *s.only<FinishJob>().summary;
    CHECK(summary.incidents.at(0).downtime == 100ms);
    CHECK(summary.incidents.at(0).resumed_from == SnapshotNumber::epoch(20));
    CHECK(summary.progress == told);
  }
}

TEST_CASE("A job that is over lets nobody in and says why") {
  Story s(fixed(1));
  const NodeId a = s.join("n1");
  s.finished(a);
  s.join("n2");
  CHECK(s.only<Reject>().why == "the job 'job' is over: it succeeded");
  s.lose(a);
  s.time_passed();
  CHECK(s.commands.empty());
}

TEST_CASE("When the last node of a world is lost, the job gathers again") {
  Story s(fixed(1));
  const NodeId a = s.join("n1");
  s.lose(a);
  CHECK(s.state() == JobState::gathering);
  const NodeId b = s.join("n2");
  CHECK(s.world_of(b).attempt == AttemptNumber{1});
}

TEST_CASE("A node cannot blame a rank of another node") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(b, killed(0));
  s.stopped(a);
  s.stopped(b, {killed(1)});
  s.apply(StopRequested{a, 15});
  s.stopped(a);
  s.stopped(b);
  const auto incidents = s.only<FinishJob>().summary->incidents;
  REQUIRE(incidents.size() == 1);
  CHECK(incidents[0].reason == "rank 1 on n2 was killed by SIGKILL");
}

TEST_CASE("The incidents kept are bounded, and the newest stay") {
  Story s(fixed(1));
  for (std::size_t i = 0; i < kIncidentsMax + 20; ++i) {
    s.lose(s.join("n" + std::to_string(i)));
  }
  const NodeId a = s.join("last");
  s.finished(a);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.incidents.size() == kIncidentsMax);
  CHECK(summary.attempts == static_cast<int>(kIncidentsMax) + 21);
  CHECK(summary.incidents.back().reason == "node n119 was lost (its connection closed)");
}

TEST_CASE("Incidents that are not kept any more stay counted, with the next coordinator, too") {
  JobHistory history;
  history.begin(0s);
  for (std::size_t i = 0; i < kIncidentsMax + 5; ++i) {
    history.assigned(1s, AttemptNumber{static_cast<std::uint32_t>(i)}, 1);
    history.ended(Incident{}, {2s, 2s, 2s});
  }
  REQUIRE(history.incidents_count() == static_cast<int>(kIncidentsMax) + 5);
  JobHistory successor;
  successor.inherit(history.so_far(3s), 3s);
  CHECK(successor.incidents().size() == kIncidentsMax);
  CHECK(successor.incidents_count() == history.incidents_count());
  successor.ended(Incident{}, {4s, 4s, 4s});
  CHECK(successor.incidents_count() == history.incidents_count() + 1);
}
