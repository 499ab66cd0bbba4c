// What people are told of nodes that do not come: who they are, and whether anybody has connected.
#include "rendezvous/membership/rendezvous_status.h"
#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

MembershipOptions reached_at_a_port(int nodes) {
  MembershipOptions options = fixed(nodes);
  options.endpoint_note = "this node hosts the endpoint";
  options.listens_at = "port 29400 of 10.0.0.1 (eth0)";
  return options;
}

/// The coordinator's own node is the only one here.
struct HostAlone : Story {
  explicit HostAlone(int nodes) : Story(reached_at_a_port(nodes)) {
    NodeDescription host = description("n1");
    host.hosts_coordinator = true;
    join(host);
  }
};

}  // namespace

TEST_CASE("The host that waits alone is told whether anybody has connected, and where") {
  HostAlone s(2);
  s.wait(2s);
  s.time_passed();
  const std::string rest =
      "; start ddprun on the missing nodes too, and let the network pass TCP to that port; this "
      "node hosts the endpoint";
  CHECK(s.only<TellWaiting>().table->note ==
        "no other node has connected to port 29400 of 10.0.0.1 (eth0) yet" + rest);
  s.apply(CallerCame{"10.0.0.2"});
  s.wait(4s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->note ==
        "the last connection to port 29400 of 10.0.0.1 (eth0) came from 10.0.0.2, 4 s ago, and "
        "became no node" +
            rest);
}

TEST_CASE("A connection that became a node which is lost is no stranger's") {
  HostAlone s(3);
  s.apply(CallerCame{"10.0.0.2"});
  s.apply(NodeJoined{NodeId{9}, s.description("n2"), "10.0.0.2"});
  s.lose(NodeId{9});
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->note == "this node hosts the endpoint");
  s.apply(CallerCame{"10.0.0.3"});
  s.wait(4s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->note.find("came from 10.0.0.3, 4 s ago, and became no node") !=
        std::string::npos);
}

TEST_CASE("The hosts of a scheduler that are not here are named, by their names without a domain") {
  MembershipOptions options = fixed(4);
  options.expected = {{"n1.site", "n2.site", "n3.site", "n4.site"}, "PBS_NODEFILE"};
  Story s(options);
  s.join("n3");
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->missing_hosts == "n1, n2, n4 (PBS_NODEFILE)");
  s.join("n1.other");
  s.wait(598s);
  s.time_passed();
  CHECK(s.only<FinishJob>().summary->reason ==
        "after 600 s only 2 of 4 nodes were here (n3, n1.other); missing: n2, n4 (PBS_NODEFILE)");
}

TEST_CASE("Where a node is on a host that the scheduler calls otherwise, none is named") {
  MembershipOptions options = fixed(3);
  options.expected = {{"n1", "n2", "n3"}, "SLURM_STEP_NODELIST"};
  Story s(options);
  s.join("n1");
  s.join("other");
  s.wait(2s);
  s.time_passed();
  CHECK(s.only<TellWaiting>().table->missing_hosts.empty());
}

TEST_CASE("A node that gathered with others and is in no world is told once that it is a spare") {
  Story s(elastic(1, 3));
  s.join("n1");
  s.wait(30s);
  s.time_passed();  // the last call is over
  const NodeId second = s.join("n2");
  REQUIRE(s.state() == JobState::stopping);
  const NodeId third = s.join("n3");
  const NodeId fourth = s.join("n4");
  s.stopped(NodeId{1});
  REQUIRE(s.state() == JobState::running);
  CHECK(s.all<AssignWorld>().size() == 3);
  const auto told = s.only<TellWaiting>();
  CHECK(told.nodes == std::vector{fourth});
  CHECK(told.table->note ==
        "this node is a spare: the job runs and all 3 nodes are here; it takes the place of a node "
        "that is lost");
  s.lose(third);
  s.stopped(NodeId{1});
  s.stopped(second);
  REQUIRE(s.state() == JobState::running);
  s.world_of(fourth);
  CHECK(s.all<TellWaiting>().empty());
}
