// A node that cannot run workers leaves; the job goes on where enough are left.
#include "rendezvous/membership/membership.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

TEST_CASE("A member that gives up does not end a job that has enough nodes without it") {
  Story s(elastic(2, 3));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  const NodeId c = s.join("n3");
  s.apply(NodeGaveUp{c, "./train: no such file"});
  CHECK(s.ordered_to_stop() == std::vector{a, b});
  const std::string why = "node n3 was lost (it gave up: ./train: no such file)";
  CHECK(s.all<StopWorkers>().front().reason == why);
  s.stopped(a);
  bool last = false;
  SECTION("and ends before the others have stopped") {
    s.lose(c);
    s.stopped(b);
  }
  SECTION("and ends after that") {
    s.stopped(b);
    last = true;
  }
  CHECK(s.world_of(a).group_world_size == 2);
  CHECK(s.world_of(b).group_world_size == 2);
  if (last) {
    s.lose(c);
    CHECK(s.commands.empty());
  }
  s.finished(a);
  s.finished(b);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::succeeded);
  REQUIRE(summary.incidents.size() == 1);
  CHECK(summary.incidents[0].reason == why);
  CHECK_FALSE(summary.incidents[0].spent_restart);
}

TEST_CASE("The coordinator's node that gives up goes on as the coordinator, without workers") {
  Story s(elastic(1, 2));
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  const NodeId b = s.join("n2");
  s.apply(NodeGaveUp{a, "no disk"});
  CHECK(s.only<TellWaiting>().nodes == std::vector{a});
  CHECK(s.only<TellWaiting>().table->note.find("(no disk)") != std::string::npos);
  CHECK(s.ordered_to_stop() == std::vector{b});
  s.stopped(b);
  CHECK(s.world_of(b).group_world_size == 1);
  s.finished(b);
  CHECK(s.only<FinishJob>().summary->verdict == Verdict::succeeded);
}

TEST_CASE("The coordinator's node that gives up twice is counted once") {
  Story s(elastic(1, 3));
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  s.join("n2");
  REQUIRE(s.state() == JobState::gathering);
  s.apply(NodeGaveUp{a, "no disk"});
  CHECK(s.job().workers_here() == 1);
  s.apply(NodeGaveUp{a, "no disk"});
  CHECK(s.job().workers_here() == 1);
  s.lose(a);
  CHECK(s.job().workers_here() == 1);
}

TEST_CASE("A member that gives up later is waited for as one that is lost") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.failed(a, killed(0));
  s.stopped(a, {killed(0)});
  s.stopped(b);
  REQUIRE(s.attempt() == AttemptNumber{1});
  s.apply(NodeGaveUp{b, "no disk"});
  s.stopped(a);
  CHECK(s.state() == JobState::gathering);
  s.lose(b);
  s.join("n2");
  CHECK(s.world_of(a).group_world_size == 2);
}

TEST_CASE("A job ends whose state nobody keeps, though all are here") {
  MembershipOptions options = elastic(1, 2);
  options.self = VoterId{1};
  options.heartbeat_timeout = 3s;
  options.waited = 500s;  // under a coordinator before
  Story s(options);
  NodeDescription service = s.description("etcd");
  service.witness = true;
  service.voter = kServiceVoter;
  s.join(service);
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  host.voter = options.self;
  s.join(host);
  NodeDescription other = s.description("n2");
  other.voter = VoterId{3};
  SECTION("not before the join timeout is over, which counts from before this coordinator") {
    s.join(other);
    CHECK(s.only<Replicate>().voters.size() == 1);
    s.wait(99s);
    s.time_passed();
    CHECK(s.state() == JobState::gathering);
    s.wait(1s);
    s.time_passed();
    CHECK(s.state() == JobState::ending);
  }
  SECTION("nor as long as a plan that came late may still be kept") {
    s.wait(95s);
    s.join(other);
    s.wait(9s);
    s.time_passed();
    CHECK(s.state() == JobState::gathering);
    s.wait(1s);
    s.time_passed();
    CHECK(s.state() == JobState::ending);
  }
}
