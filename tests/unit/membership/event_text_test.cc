#include "rendezvous/membership/event_text.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

TEST_CASE("Instants are written in seconds and microseconds") {
  CHECK(to_text(Instant(0)) == "0.000000");
  CHECK(to_text(Instant(12s + 345us)) == "12.000345");
  CHECK(to_text(Instant(-1500ms)) == "-1.500000");
}

TEST_CASE("Every event has a line") {
  Story s(fixed(2));
  auto d = s.description("n 1", 4);
  d.node_rank = 1;
  const NodeId n{3};
  const AttemptNumber a{7};
  CHECK(to_text(Event(NodeJoined{n, d})) ==
        "joined node=3 host=\"n 1\" workers=4 role=default rank=1");
  d.order_hint = 4;
  CHECK(to_text(Event(NodeJoined{n, d, "10.0.0.1"})) ==
        "joined node=3 host=\"n 1\" workers=4 role=default rank=1 order=4 address=10.0.0.1");
  CHECK(to_text(Event(StrangerTurnedAway{"10.0.0.2", "no"})) ==
        "turned-away address=10.0.0.2 why=no");
  CHECK(to_text(Event(NodeHeard{n})) == "heard node=3");
  CHECK(to_text(Event(NodeLost{n, "gone", 3s})) == "lost node=3 why=gone silent=3.000000");
  CHECK(to_text(Event(NodeLost{n, "gone", {}, true})) ==
        "lost node=3 why=gone silent=0.000000 died");
  CHECK(to_text(Event(WorkersStarted{n, a})) == "started node=3 attempt=7");
  CHECK(to_text(Event(WorkerFailed{n, a, peer_lost(killed(5))})) ==
        "failed node=3 attempt=7 failed-rank=5 signal=SIGKILL age=0.000000 peer-lost");
  CHECK(to_text(Event(WorkersFinished{n, a, {SnapshotNumber::epoch(10), 50, 0.5, 1ms}})) ==
        "finished node=3 attempt=7 resumed-epoch=10 last-epoch=50 first-step-after=0.001000");
  CHECK(to_text(Event(WorkersStopped{n, a, {after_stop(exited(5, 1))}, 2, {}})) ==
        "stopped node=3 attempt=7 failed-rank=5 exit=1 age=0.000000 after-stop dropped=2");
  CHECK(to_text(Event(StopRequested{n, 15})) == "stop-requested node=3 signal=SIGTERM");
  CHECK(to_text(Event(StopRequested{n, 0, StopWish::preempt, "gcp: TRUE"})) ==
        "stop-requested node=3 signal=none wish=preempt notice=\"gcp: TRUE\"");
  CHECK(to_text(Event(NodeGaveUp{n, "no \"x\"\n"})) == "gave-up node=3 why=\"no \\\"x\\\"\\x0a\"");
  CHECK(to_text(Event(StoreFailed{a, "full"})) == "store-failed attempt=7 why=full");
  CHECK(to_text(Event(TimePassed{})) == "time-passed");
  TrainingProgress told;
  told.saved = SnapshotNumber::step(4);
  CHECK(to_text(Event(WorkersProgress{n, a, told})) == "progress node=3 attempt=7 saved-step=4");
}

TEST_CASE("Every command has a line") {
  const NodeId n{3};
  World w;
  w.attempt = AttemptNumber{2};
  w.group_rank = 1;
  w.group_world_size = 2;
  w.base_rank = 4;
  w.world_size = w.role_world_size = 8;
  w.role_base_rank = 4;
  CHECK(to_text(Command(Welcome{n})) == "welcome node=3");
  CHECK(to_text(Command(Reject{n, "no", ""})) == "reject node=3 why=no");
  CHECK(to_text(Command(OpenStore{AttemptNumber{2}})) == "open-store attempt=2");
  CHECK(to_text(Command(AssignWorld{n, w})) ==
        "assign node=3 attempt=2 group=1/2 base-rank=4/8 role-rank=4/8 restarts=0");
  CHECK(to_text(Command(StopWorkers{n, AttemptNumber{2}, "x y"})) ==
        "stop node=3 attempt=2 reason=\"x y\"");
  RendezvousStatus table;
  table.nodes_here = 2;
  table.note = "w";
  CHECK(to_text(Command(TellWaiting{{n}, std::make_shared<RendezvousStatus>(table)})) ==
        "waiting nodes=1 here=2 refused=0 lost=0 note=w");
  CHECK(to_text(Command(WatchNode{n})) == "watch node=3");
  CHECK(to_text(Command(Disconnect{n})) == "disconnect node=3");
  CHECK(to_text(Command(TellIncident{{n}, "x"})) == "tell-incident nodes=1 text=x");
  JobSummary summary;
  summary.verdict = Verdict::failed;
  summary.reason = "bad";
  summary.attempts = 4;
  CHECK(to_text(Command(FinishJob{std::make_shared<JobSummary>(summary)})) ==
        "finish verdict=failed reason=bad attempts=4 restarts=0");
}
