// What people are told while a job waits, and nodes that contend for a rank.
#include "rendezvous/membership/rendezvous_status.h"
#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

NodeDescription ranked(const Story& s, const std::string& host, int rank) {
  NodeDescription d = s.description(host);
  d.node_rank = rank;
  return d;
}

}  // namespace

TEST_CASE("Names fold into runs, in natural order, within their limit") {
  CHECK(fold_names({}).empty());
  CHECK(fold_names({"b"}) == "b");
  CHECK(fold_names({"n10", "n9", "n2", "n11"}) == "n2, n9-n11");
  CHECK(fold_names({"n1", "n2"}) == "n1, n2");
  CHECK(fold_names({"n08", "n09", "n10", "n11"}) == "n08-n11");
  CHECK(fold_names({"n9", "n010", "n11"}) == "n9, n010, n11");
  CHECK(fold_names({"a", "a", "a"}) == "a, a, a");
  CHECK(fold_names({"n99999999999", "n100000000000"}) == "n99999999999, n100000000000");
  std::vector<std::string> thousand;
  for (int i = 1000; i > 0; --i) {
    if (i != 500) {
      thousand.push_back("n" + std::to_string(i));
    }
  }
  CHECK(fold_names(thousand) == "n1-n499, n501-n1000");
  CHECK(fold_names({"one", "two", "three"}, 9) == "one and 2 more");
  CHECK(fold_names({"a-very-long-name", "b"}, 4) == "2 nodes");
}

TEST_CASE("A job that gathers at once tells nobody anything") {
  Story s(fixed(2));
  s.join("n1");
  CHECK(s.job().next_deadline() == 2s);
  s.wait(1999ms);
  s.time_passed();
  CHECK(s.commands.empty());
  s.join("n2");
  CHECK(s.state() == JobState::running);
  CHECK(s.all<TellWaiting>().empty());
  CHECK_FALSE(s.job().next_deadline());
}

TEST_CASE("While nodes are missing all are told who is here, since when and from where") {
  Story s(fixed(3));
  NodeDescription host = s.description("n1", 4);
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  s.wait(1500ms);
  s.apply(NodeJoined{NodeId{77}, s.description("n2", 2), "10.0.0.2"});
  s.wait(500ms);
  s.time_passed();
  const auto told = s.only<TellWaiting>();
  CHECK(told.nodes == std::vector{a, NodeId{77}});
  const RendezvousStatus& t = *told.table;
  CHECK(t.waits_for == RendezvousStatus::For::nodes);
  CHECK(t.nodes_here == 2);
  CHECK(t.workers_here == 6);
  CHECK(t.min_nodes == 3);
  CHECK(t.waited == 2s);
  CHECK(t.left == 598s);
  CHECK(t.here == std::vector<NodeHere>{{"n1", "", 4, {}, true, 2s},
                                        {"n2", "10.0.0.2", 2, {}, false, 500ms}});
  CHECK(t.refused.empty());
  CHECK(t.lost.empty());
}

TEST_CASE("A witness is none of the nodes that --nnodes counts, and has no workers") {
  Story s(fixed(2));
  s.join("n1");
  NodeDescription witness = s.description("w");
  witness.witness = true;
  s.join(witness);
  s.wait(2s);
  s.time_passed();
  const RendezvousStatus& t = *s.only<TellWaiting>().table;
  CHECK(t.nodes_here == 1);
  CHECK(t.workers_here == 1);
  REQUIRE(t.here.size() == 2);
  CHECK(t.here[1].host_name == "w");
  CHECK(t.here[1].workers == 0);
  s.wait(600s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason == "after 602 s only 1 of 2 nodes was here (n1)");
}

TEST_CASE("Who was refused or lost is told with the reason, once however often it comes") {
  Story s(elastic(3, 5));
  s.join("n1");
  for (int i = 0; i < 20; ++i) {
    NodeDescription other = s.description("n9");
    other.max_restarts = 7;
    s.apply(NodeJoined{NodeId{100U + static_cast<unsigned>(i)}, other, "10.0.0.9"});
    s.wait(50ms);
  }
  s.apply(StrangerTurnedAway{"10.0.0.8", "it speaks version 9"});
  const NodeId b = s.join("n2");
  s.lose(b);
  s.wait(1s);
  s.time_passed();
  const RendezvousStatus t = *s.only<TellWaiting>().table;
  REQUIRE(t.refused.size() == 2);
  CHECK(t.refused[0] == NodeGone{"", "10.0.0.8", "it speaks version 9", 1, 1s});
  CHECK(t.refused[1].host_name == "n9");
  CHECK(t.refused[1].times == 20);
  CHECK(t.refused[1].why.find("--max-restarts") != std::string::npos);
  REQUIRE(t.lost.size() == 1);
  CHECK(t.lost[0] == NodeGone{"n2", "", "its connection closed", 1, 1s});
}

TEST_CASE("A node that comes back is not among the lost and refused any more") {
  Story s(fixed(3));
  s.join("n1");
  s.lose(s.join("n2"));
  s.join("n2");
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->lost.empty());
}

TEST_CASE("A change is told soon, and not twice") {
  Story s(fixed(4));
  s.join("n1");
  s.wait(2s);
  s.time_passed();
  CHECK(s.all<TellWaiting>().size() == 1);
  s.wait(2s);
  s.join("n2");
  CHECK(s.job().next_deadline() == 4500ms);
  s.wait(500ms);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->nodes_here == 2);
  s.wait(2s);
  s.time_passed();
  CHECK(s.commands.empty());
}

TEST_CASE("A job that lost a node says within half a second whom it waits for") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.lose(b);
  s.stopped(a);
  CHECK(s.state() == JobState::gathering);
  CHECK(s.job().next_deadline() == s.now() + 500ms);
  s.wait(500ms);
  s.time_passed();
  const RendezvousStatus t = *s.only<TellWaiting>().table;
  REQUIRE(t.lost.size() == 1);
  CHECK(t.lost[0].host_name == "n2");
  s.join("n2");
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A pause after attempts that failed early is told with its end, the first one too") {
  Story s(fixed(1));
  const NodeId a = s.join("n1");
  TrainingProgress no_step;
  no_step.told = true;
  for (int failures = 0; failures < 2; ++failures) {
    s.started(a);
    s.failed(a, killed(0));
    s.stopped(a, {killed(0)}, no_step);
  }
  REQUIRE(s.state() == JobState::gathering);
  s.wait(500ms);
  s.time_passed();
  const RendezvousStatus t = *s.only<TellWaiting>().table;
  CHECK(t.note == "attempts in a row failed early");
  CHECK(t.left == 500ms);
  s.wait(500ms);
  s.time_passed();
  CHECK(s.world_of(a).attempt == AttemptNumber{2});
}

TEST_CASE("A last call says when the job starts") {
  Story s(elastic(1, 3));
  s.join("n1");
  s.wait(10s);
  s.time_passed();
  const RendezvousStatus t = *s.only<TellWaiting>().table;
  CHECK(t.waits_for == RendezvousStatus::For::last_call);
  CHECK(t.left == 20s);
}

TEST_CASE("With all nodes here there is no last call to wait for") {
  MembershipOptions options = elastic(2, 4);
  options.self = VoterId{9};
  Story s(options);
  for (const std::uint64_t i : {1U, 2U, 3U, 4U}) {
    NodeDescription node = s.description("n" + std::to_string(i));
    node.voter = VoterId{i + 8};
    s.join(node);
  }
  REQUIRE(s.state() == JobState::gathering);  // no voter has acknowledged the world yet
  s.wait(10s);
  s.time_passed();
  const RendezvousStatus t = *s.only<TellWaiting>().table;
  CHECK(t.waits_for == RendezvousStatus::For::nodes);
  CHECK(t.left == 590s);
}

TEST_CASE("A job that is given up says for how long it waited, to the nearest second") {
  MembershipOptions options = fixed(2);
  options.join_timeout = 2s;
  Story s(options);
  s.join("n1");
  s.wait(2007ms);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason == "after 2 s only 1 of 2 nodes was here (n1)");
}

TEST_CASE("Missing ranks are named where each of them is a node that is missing") {
  Story s(fixed(3));
  const NodeId first = s.join(ranked(s, "n1", 1));
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->missing_ranks == std::vector{0, 2});
  SECTION("a rank above all of the job's takes one of the places") {
    s.join(ranked(s, "n2", 7));
  }
  SECTION("so does a node without a rank") {
    s.join("n2");
  }
  s.wait(598s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason == "after 600 s only 2 of 3 nodes were here (n1, n2)");
  static_cast<void>(first);
}

TEST_CASE("The table of a thousand nodes is a few lines") {
  Story s(elastic(1001, 1002));
  for (int i = 1; i <= 1000; ++i) {
    s.join("n" + std::to_string(i), 8);
  }
  NodeDescription other = s.description("x");
  for (int i = 0; i < 1000; ++i) {
    other.max_restarts = 100 + i;
    s.join(other);
  }
  s.wait(2s);
  s.time_passed();
  const auto told = s.only<TellWaiting>();
  CHECK(told.nodes.size() == 1000);
  CHECK(told.table->here.empty());
  CHECK(told.table->names_here == "n1-n1000");
  CHECK(told.table->workers_here == 8000);
  CHECK(told.table->refused.size() == kWaitingRowsMax);
  CHECK(told.table->refused_more == 1000 - static_cast<int>(kWaitingRowsMax));
}

TEST_CASE("The host that waits alone is told why nobody else may come (I-3)") {
  MembershipOptions options = fixed(2);
  options.endpoint_note = "the endpoint is every machine's own";
  Story s(options);
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  s.join(host);
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->note == "the endpoint is every machine's own");
  s.wait(598s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason ==
        "after 600 s only 1 of 2 nodes was here (n1); the endpoint is every machine's own");
}

TEST_CASE("The host that waits alone is told that the job may run, or have ended, elsewhere") {
  MembershipOptions options = fixed(2);
  options.endpoint_note = "this node hosts the endpoint";
  options.self = VoterId{7};
  Story s(options);
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  host.voter = options.self;
  s.join(host);
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->note ==
        "this node hosts the endpoint; if the job runs on other nodes, they call this one when "
        "they miss a node");
  s.wait(598s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason ==
        "after 600 s only 1 of 2 nodes was here (n1); this node hosts the endpoint; if the job "
        "ran on other nodes, they missed none, or it has ended");
}

TEST_CASE("A job that was given up names who was refused last") {
  Story s(fixed(2));
  s.join("n1");
  s.apply(StrangerTurnedAway{"10.0.0.2", "it speaks version 9"});
  s.wait(600s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason.find("; refused: at 10.0.0.2, it speaks version 9") !=
        std::string::npos);
}

TEST_CASE("A job that cannot have its nodes, because one was refused for good, ends at once") {
  Story s(fixed(3));
  s.join("n1");
  NodeDescription other = s.description("n2");
  std::string why =
      "its --max-restarts is '7', the job's is '3'; start every node with the same --max-restarts";
  SECTION("it disagrees") {
    other.max_restarts = 7;
  }
  SECTION("it can run nothing") {
    other.unable = "log directory '/x': cannot make it";
    why = "it cannot run workers: " + other.unable;
  }
  s.apply(NodeJoined{NodeId{50}, other, "10.0.0.2"});
  CHECK(s.only<Reject>().node == NodeId{50});
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::impossible);
  CHECK(summary.reason == "node n2 (10.0.0.2) was rejected: " + why +
                              "; without it the job cannot have the 3 nodes that it needs: start "
                              "all of them again when that is mended");
}

TEST_CASE("A job that has run waits on where a replacement was refused") {
  Story s(fixed(2));
  const NodeId first = s.join("n1");
  const NodeId second = s.join("n2");
  s.started(first);
  s.started(second);
  s.lose(second);
  s.stopped(first);
  NodeDescription other = s.description("n2");
  other.max_restarts = 7;
  s.apply(NodeJoined{NodeId{50}, other, "10.0.0.2"});
  CHECK(s.only<Reject>().node == NodeId{50});
  CHECK(s.all<FinishJob>().empty());
  s.join("n2");
  CHECK(s.all<AssignWorld>().size() == 2);
}

TEST_CASE("A node of another job, or one whose rank is taken, ends nobody's waiting") {
  Story s(fixed(2));
  s.join(ranked(s, "n1", 0));
  NodeDescription other = s.description("n2");
  other.job_id = "another";
  s.join(other);
  CHECK(s.all<Reject>().size() == 1);
  s.join(ranked(s, "n3", 0));
  s.apply(NodeHeard{NodeId{1}});
  CHECK(s.all<Reject>().size() == 1);
  CHECK(s.state() == JobState::gathering);
}

TEST_CASE("Who was refused for good is not waited for where enough are here") {
  Story s(elastic(1, 3));
  s.join("n1");
  NodeDescription other = s.description("n2");
  other.unable = "no disk";
  s.apply(NodeJoined{NodeId{50}, other, "10.0.0.2"});
  CHECK(s.state() == JobState::gathering);  // one more may come
  s.apply(NodeJoined{NodeId{51}, other, "10.0.0.2"});
  CHECK(s.state() == JobState::gathering);  // the same one again
  SECTION("the last one comes") {
    s.join("n3");
  }
  SECTION("so is the last one") {
    other.host_name = "n3";
    s.apply(NodeJoined{NodeId{52}, other, "10.0.0.3"});
    CHECK(s.only<TellWaiting>().table->refused.size() == 2);
  }
  CHECK(s.state() == JobState::running);
}

TEST_CASE("Who was refused, and comes again as it should, counts as here") {
  Story s(elastic(2, 3));
  s.join("n1");
  NodeDescription other = s.description("n2");
  other.max_restarts = 7;
  s.join(other);
  s.join("n2");
  CHECK(s.state() == JobState::gathering);  // the last call: a third may come
  s.join("n3");
  CHECK(s.state() == JobState::running);
}

TEST_CASE("Who was refused while the job ran does not end it when it loses a node") {
  Story s(fixed(2));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  NodeDescription other = s.description("n3");
  other.max_restarts = 7;
  s.join(other);
  s.lose(b);
  s.stopped(a);
  CHECK(s.state() == JobState::gathering);
  s.join("n2");
  CHECK(s.state() == JobState::running);
}

TEST_CASE("The rank of a node that may be lost is waited for, and taken when it is lost") {
  Story s(fixed(2));
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  const NodeId old = s.join(ranked(s, "n2", 1));
  CHECK(s.state() == JobState::running);
  const NodeId successor = s.join(ranked(s, "n2", 1));
  CHECK(s.all<Reject>().empty());
  CHECK(s.only<Welcome>().node == successor);
  CHECK(s.only<WatchNode>().node == old);
  CHECK(s.only<TellWaiting>().nodes == std::vector{successor});
  CHECK(s.job().nodes() == 2);
  s.lose(old, 3s);
  CHECK(s.ordered_to_stop() == std::vector{a});
  s.stopped(a);
  CHECK(s.world_of(successor).group_rank == 1);
  CHECK(s.world_of(successor).attempt == AttemptNumber{1});
}

TEST_CASE("A node that waited for a rank and is in the new world at once is no growth of it") {
  Story s(elastic(2, 4, 100));
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  const NodeId old = s.join(ranked(s, "n2", 1));
  s.wait(60s);
  s.time_passed();  // the last call is over
  TrainingProgress no_step;
  no_step.told = true;
  for (int failures = 0; s.state() == JobState::running && failures < 10; ++failures) {
    s.started(a);
    s.started(old);
    s.failed(a, exited(0, 1));
    s.stopped(a, {}, no_step);
    s.stopped(old, {}, no_step);
  }
  REQUIRE(s.state() == JobState::gathering);  // a pause, after attempts that made no step
  const NodeId waiter = s.join(ranked(s, "n2", 1));
  s.wait(600s);
  s.lose(old);
  CHECK(s.state() == JobState::running);
  CHECK(s.world_of(waiter).group_rank == 1);
  CHECK(s.ordered_to_stop().empty());
}

TEST_CASE("A node that comes back before its old connection is known to be lost is itself") {
  Story s(fixed(2));
  NodeDescription host = s.description("n1");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  NodeDescription same = ranked(s, "n2", 1);
  same.voter = VoterId{77};
  const NodeId old = s.join(same);
  CHECK(s.state() == JobState::running);
  const NodeId again = s.join(same);
  CHECK(s.only<Disconnect>().node == old);
  CHECK(s.all<WatchNode>().empty());
  s.lose(old);
  CHECK(s.ordered_to_stop() == std::vector{a});
  s.stopped(a);
  CHECK(s.world_of(again).group_rank == 1);
}

TEST_CASE("A rank whose node turns out to be alive stays its own") {
  Story s(fixed(3));
  const NodeId holder = s.join(ranked(s, "n2", 1));
  const NodeId other = s.join(ranked(s, "n3", 1));
  const NodeId third = s.join(ranked(s, "n4", 1));
  CHECK(s.only<Reject>().node == third);
  CHECK(s.only<Reject>().why == "node rank 1 is taken by node n2, and node n3 waits for it");
  s.apply(NodeHeard{holder});
  CHECK(s.only<Reject>().node == other);
  CHECK(s.only<Reject>().why == "node rank 1 is taken by node n2, which is alive");
  s.apply(NodeHeard{holder});
  CHECK(s.commands.empty());
  CHECK(s.job().nodes() == 1);
}

TEST_CASE("The rank of the node that hosts the endpoint is never waited for") {
  Story s(fixed(2));
  NodeDescription host = ranked(s, "n1", 0);
  host.hosts_coordinator = true;
  s.join(host);
  s.join(ranked(s, "n2", 0));
  CHECK(s.only<Reject>().why == "node rank 0 is taken by node n1, which hosts the endpoint");
}

TEST_CASE("An successor is let in whatever its rank's last holder was doing") {
  Story s(elastic(1, 3));
  const NodeId a = s.join("n1");
  SECTION("gathering") {
    const NodeId old = s.join(ranked(s, "n2", 1));
    const NodeId successor = s.join(ranked(s, "n3", 1));
    s.lose(old);
    s.wait(30s);
    s.time_passed();
    CHECK(s.world_of(successor).world_size == 2);
  }
  SECTION("stopping") {
    const NodeId old = s.join(ranked(s, "n2", 1));
    s.join("n4");
    s.failed(a, killed(0));
    const NodeId successor = s.join(ranked(s, "n3", 1));
    s.stopped(old);
    s.lose(old);
    s.stopped(a, {killed(0)});
    CHECK(s.state() == JobState::stopping);
    CHECK(s.job().nodes() == 3);
    CHECK(s.all<Reject>().empty());
    static_cast<void>(successor);
  }
  SECTION("finished: the successor waits as a spare") {
    const NodeId old = s.join(ranked(s, "n2", 1));
    s.wait(30s);
    s.time_passed();
    s.finished(old);
    const NodeId successor = s.join(ranked(s, "n3", 1));
    s.lose(old);
    CHECK(s.only<TellWaiting>().nodes == std::vector{successor});
    CHECK(s.only<TellWaiting>().table->note.find("spare") != std::string::npos);
  }
}

TEST_CASE("Who waits for a rank is no node yet: its loss and its signals concern it alone") {
  Story s(fixed(2));
  s.join("n1");
  s.join(ranked(s, "n2", 1));
  SECTION("lost") {
    const NodeId successor = s.join(ranked(s, "n3", 1));
    s.lose(successor);
    CHECK(s.commands.empty());
    CHECK(s.state() == JobState::running);
    s.join(ranked(s, "n4", 1));
    CHECK(s.all<Reject>().empty());
  }
  SECTION("asked to stop") {
    const NodeId successor = s.join(ranked(s, "n3", 1));
    s.apply(StopRequested{successor, 15});
    CHECK(s.only<Reject>().node == successor);
    CHECK(s.only<Reject>().why == "SIGTERM was sent to its agent while it waited for its rank");
    CHECK(s.state() == JobState::running);
  }
}

TEST_CASE("Ranks of a job that is over are not handed on") {
  Story s(fixed(1));
  const NodeId old = s.join(ranked(s, "n1", 0));
  s.join(ranked(s, "n1", 0));
  s.finished(old);
  CHECK(s.all<FinishJob>().size() == 1);
  s.lose(old);
  CHECK(s.commands.empty());
}

TEST_CASE("What the scheduler says orders nodes that have no --node-rank (I-22)") {
  Story s(fixed(4));
  const auto hinted = [&](const std::string& host, int hint) {
    NodeDescription d = s.description(host);
    d.order_hint = hint;
    return d;
  };
  const NodeId a = s.join(hinted("n1", 2));
  const NodeId b = s.join(hinted("n2", 1));
  const NodeId c = s.join(hinted("n3", 1));  // a hint is no claim: two may have the same
  NodeDescription asked = hinted("n4", 0);
  asked.node_rank = 3;
  const NodeId d = s.join(asked);
  CHECK(s.world_of(d).group_rank == 0);  // --node-rank goes before any hint
  CHECK(s.world_of(b).group_rank == 1);
  CHECK(s.world_of(c).group_rank == 2);
  CHECK(s.world_of(a).group_rank == 3);
  s.failed(a, killed(3));
  for (const NodeId id : {a, b, c, d}) {
    s.stopped(id);
  }
  CHECK(s.world_of(b).group_rank == 1);
  CHECK(s.world_of(a).group_rank == 3);
}
