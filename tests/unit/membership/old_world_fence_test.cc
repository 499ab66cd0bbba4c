// The next world waits for workers that may still run (old_world_fence.h).
#include "rendezvous/membership/membership.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

TEST_CASE("The lease of a lost node whose death is not certain is waited for, or the node itself") {
  Story s(elastic(1, 3));
  const NodeId a = s.join("n1");
  NodeDescription other = s.description("n2");
  other.voter = VoterId{2};
  const NodeId b = s.join(other);
  s.join("n3");
  s.apply(NodeLost{b, "its connection broke", 0s, false, 3s});
  for (const NodeId member : s.ordered_to_stop()) {
    s.stopped(member);
  }
  CHECK(s.state() == JobState::gathering);
  const RendezvousStatus table = *s.only<TellWaiting>().table;
  CHECK(table.note.find("may run workers until its lease is over") != std::string::npos);
  CHECK(s.job().next_deadline() <= s.now() + 3s);
  SECTION("the lease ends") {
    s.wait(3s - 1ns);
    s.time_passed();
    CHECK(s.state() == JobState::gathering);
    s.wait(1ns);
    s.time_passed();
    CHECK(s.state() == JobState::running);
  }
  SECTION("the node comes back, and has ended its workers before") {
    s.join(other);
    CHECK(s.state() == JobState::running);
  }
  CHECK(s.job().restarts_used() == 0);
  CHECK(s.world_of(a).restarts_used == 0);
}

TEST_CASE("A node that came back before its old connection was lost is not waited for") {
  const bool has_rank = GENERATE(false, true);
  MembershipOptions options = elastic(1, 3);
  options.self = VoterId{1};
  Story s(options);
  std::vector<NodeId> here;
  const auto join = [&](std::uint64_t voter) {
    NodeDescription node = s.description("n" + std::to_string(voter));
    node.voter = VoterId{voter};
    node.hosts_coordinator = voter == 1;
    node.node_rank = has_rank ? std::optional(static_cast<int>(voter) - 1) : std::nullopt;
    node.said_at = s.now();
    here.push_back(s.join(node));
    return here.back();
  };
  const auto agree = [&] {
    for (const NodeId node : here) {
      if (s.job().leadership().planning()) {
        s.apply(StateAcknowledged{node, s.job().leadership().planned().number});
      }
    }
  };
  join(1);
  join(2);
  const NodeId old = join(3);
  agree();
  REQUIRE(s.state() == JobState::running);
  s.wait(1s);
  join(3);
  s.apply(NodeLost{old, "it came back on another connection", 0s, false, 3s});
  for (const NodeId member : s.ordered_to_stop()) {
    s.stopped(member);
  }
  s.wait(1s);
  s.time_passed();
  agree();
  CHECK(s.state() == JobState::running);
  CHECK(s.job().nodes() == 3);
}
