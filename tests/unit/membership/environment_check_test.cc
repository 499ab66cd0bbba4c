#include "rendezvous/membership/environment_check.h"

#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

constexpr EnvironmentDigest kInfo{1, 1};
constexpr EnvironmentDigest kWarn{1, 2};
constexpr EnvironmentDigest kTrace{1, 3};

NodeEnvironment debug(const std::string& value) {
  return {{"ddprun", "1"}, {"NCCL_DEBUG", value}};
}

MembershipOptions strict(MembershipOptions options) {
  options.require_same_env = true;
  return options;
}

/// A story whose nodes have environments.
class Nodes : public Story {
 public:
  using Story::Story;
  NodeId join_with(const std::string& host, const EnvironmentDigest& digest) {
    NodeDescription node = description(host);
    node.environment = digest;
    return join(std::move(node));
  }
  void told(NodeId id, const std::string& value) { apply(EnvironmentTold{id, debug(value)}); }
  [[nodiscard]] std::vector<NodeId> asked() const {
    std::vector<NodeId> nodes;
    for (const AskEnvironment& ask : all<AskEnvironment>()) {
      nodes.push_back(ask.node);
    }
    return nodes;
  }
  [[nodiscard]] bool quiet() const {
    return all<AskEnvironment>().empty() && all<TellEnvironments>().empty();
  }
};

const std::string kTable =
    "the nodes of this job do not all have the same environment:\n"
    "  what        value  nodes\n"
    "  NCCL_DEBUG  INFO   n1, n3\n"
    "              WARN   n2";

}  // namespace

TEST_CASE("Where all agree nobody is asked and nothing is told") {
  for (const bool required : {false, true}) {
    MembershipOptions options = fixed(3);
    options.require_same_env = required;
    Nodes s(options);
    s.join_with("n1", kInfo);
    s.join_with("n2", kInfo);
    s.join_with("n3", kInfo);
    CHECK(s.state() == JobState::running);
    CHECK(s.quiet());
  }
}

TEST_CASE("Differences are told once, after the workers have been started") {
  Nodes s(fixed(3));
  const NodeId n1 = s.join_with("n1", kInfo);
  const NodeId n2 = s.join_with("n2", kWarn);
  CHECK(s.quiet());
  const NodeId n3 = s.join_with("n3", kInfo);
  CHECK(s.state() == JobState::running);
  CHECK(s.all<AssignWorld>().size() == 3);
  CHECK(s.asked() == std::vector<NodeId>{n1, n2});  // one of each kind
  s.told(n2, "WARN");
  CHECK(s.quiet());
  s.told(n1, "INFO");
  CHECK(s.only<TellEnvironments>().text == kTable);
  s.told(n1, "INFO");
  CHECK(s.quiet());
  // Nor at the next attempt.
  s.failed(n3, killed(2));
  s.stopped(n1);
  s.stopped(n2);
  s.stopped(n3);
  CHECK(s.state() == JobState::running);
  CHECK(s.quiet());
}

TEST_CASE("When the node that was asked is lost, another of its kind is asked") {
  Nodes s(elastic(2, 4));
  const NodeId n1 = s.join_with("n1", kInfo);
  s.join_with("n2", kWarn);
  s.join_with("n3", kWarn);
  const NodeId n4 = s.join_with("n4", kInfo);
  CHECK(s.asked() == std::vector<NodeId>{NodeId{1}, NodeId{2}});
  s.lose(n1);
  CHECK(s.asked() == std::vector<NodeId>{n4});
  s.told(NodeId{2}, "WARN");
  s.told(n4, "INFO");
  CHECK(s.only<TellEnvironments>().text.find("WARN   n2, n3") != std::string::npos);
}

TEST_CASE("What nobody asked for, and what a stranger tells, is ignored") {
  Nodes s(fixed(2));
  const NodeId n1 = s.join_with("n1", kInfo);
  s.told(n1, "INFO");
  s.told(NodeId{99}, "WARN");
  CHECK(s.quiet());
  const NodeId n2 = s.join_with("n2", kWarn);
  CHECK(s.asked() == std::vector<NodeId>{n1, n2});
}

TEST_CASE("Nodes that tell no digest, and witnesses, are not compared") {
  Nodes s(strict(fixed(2)));
  s.join_with("n1", kInfo);
  NodeDescription witness = s.description("w");
  witness.witness = true;
  witness.environment = kTrace;
  s.join(witness);
  s.join_with("n2", {});
  CHECK(s.state() == JobState::running);
  CHECK(s.quiet());
}

TEST_CASE("A node that joins later has its differences told once") {
  Nodes s(elastic(1, 3));
  const NodeId n1 = s.join_with("n1", kInfo);
  s.wait(30s);
  s.time_passed();
  REQUIRE(s.state() == JobState::running);
  NodeId n2 = s.join_with("n2", kWarn);
  CHECK(s.asked() == std::vector<NodeId>{n1, n2});
  s.told(n1, "INFO");
  s.told(n2, "WARN");
  CHECK(s.only<TellEnvironments>().text.find("WARN   n2") != std::string::npos);
  // It comes and goes: that is known by now.
  s.lose(n2);
  n2 = s.join_with("n2", kWarn);
  CHECK(s.quiet());
  s.join_with("n3", kInfo);
  CHECK(s.quiet());
}

TEST_CASE("With --require-same-env the first world waits, and a difference ends the job") {
  Nodes s(strict(fixed(3)));
  const NodeId n1 = s.join_with("n1", kInfo);
  const NodeId n2 = s.join_with("n2", kWarn);
  s.join_with("n3", kInfo);
  CHECK(s.state() == JobState::gathering);
  CHECK(s.all<AssignWorld>().empty());
  CHECK(s.asked() == std::vector<NodeId>{n1, n2});
  s.told(n1, "INFO");
  CHECK(s.state() == JobState::gathering);
  s.told(n2, "WARN");
  CHECK(s.only<TellEnvironments>().text == kTable);
  const JobSummary summary = *s.only<FinishJob>().summary;
  CHECK(summary.verdict == Verdict::disagreed);
  CHECK(summary.attempts == 0);
  CHECK(summary.reason ==
        "node n2 differs from n1, n3 in NCCL_DEBUG (WARN, not INFO), and --require-same-env makes "
        "that an error");
}

TEST_CASE("With --require-same-env the job goes on when the node that differs leaves in time") {
  Nodes s(strict(elastic(2, 3)));
  s.join_with("n1", kInfo);
  const NodeId n2 = s.join_with("n2", kWarn);
  s.join_with("n3", kInfo);
  REQUIRE(s.state() == JobState::gathering);
  s.lose(n2);
  s.wait(30s);
  s.time_passed();
  CHECK(s.state() == JobState::running);
}

TEST_CASE("With --require-same-env a later node that differs is turned away, and the job goes on") {
  Nodes s(strict(elastic(1, 3)));
  const NodeId n1 = s.join_with("n1", kInfo);
  s.wait(30s);
  s.time_passed();
  REQUIRE(s.state() == JobState::running);
  const NodeId n2 = s.join_with("n2", kWarn);
  CHECK(s.state() == JobState::running);
  CHECK(s.only<Welcome>().node == n2);  // it is asked first
  CHECK(s.asked() == std::vector<NodeId>{n1, n2});
  s.told(n1, "INFO");
  s.told(n2, "WARN");
  CHECK(s.only<Reject>().node == n2);
  CHECK(s.only<Reject>().why ==
        "this node differs from the nodes of the job in NCCL_DEBUG (WARN, not INFO), and "
        "--require-same-env was given");
  CHECK(s.all<TellEnvironments>().empty());  // the shell tells of the rejection
  CHECK(s.state() == JobState::running);
  CHECK(s.job().nodes() == 1);
  // One that leaves before it has answered leaves nothing behind.
  const NodeId n3 = s.join_with("n3", kTrace);
  CHECK(s.asked() == std::vector<NodeId>{n3});
  s.lose(n3);
  CHECK(s.commands.empty());
  s.join_with("n4", kInfo);
  CHECK(s.state() == JobState::stopping);  // it grows
}

TEST_CASE(
    "With --require-same-env a replacement that differs does not fill the place of the lost") {
  Nodes s(strict(fixed(2)));
  const NodeId n1 = s.join_with("n1", kInfo);
  const NodeId n2 = s.join_with("n2", kInfo);
  REQUIRE(s.state() == JobState::running);
  s.lose(n2);
  s.stopped(n1);
  REQUIRE(s.state() == JobState::gathering);
  const NodeId n3 = s.join_with("n3", kWarn);
  s.told(n1, "INFO");
  s.told(n3, "WARN");
  CHECK(s.only<Reject>().node == n3);
  CHECK(s.state() == JobState::gathering);  // another one may come in its place
  const NodeId n4 = s.join_with("n4", kInfo);
  s.told(n1, "INFO");
  s.told(n4, "INFO");
  CHECK(s.state() == JobState::running);
}

TEST_CASE(
    "With --require-same-env a successor to a taken rank is compared before it takes the place") {
  Nodes s(strict(elastic(1, 2)));
  NodeDescription first = s.description("n1");
  first.environment = kInfo;
  first.node_rank = 0;
  NodeDescription second = s.description("n2");
  second.environment = kInfo;
  second.node_rank = 1;
  s.join(first);
  const NodeId n2 = s.join(second);
  REQUIRE(s.state() == JobState::running);
  second.environment = kWarn;
  const NodeId successor = s.join(second);
  CHECK(s.asked() == std::vector<NodeId>{NodeId{1}, successor});
  s.told(NodeId{1}, "INFO");
  s.told(successor, "WARN");
  CHECK(s.only<Reject>().node == successor);
  s.lose(n2);
  CHECK(s.job().nodes() == 1);
}

TEST_CASE("A successor says nothing of what its predecessor has told") {
  for (const bool required : {false, true}) {
    EnvironmentCheck check(required, true);
    NodeDescription own;
    own.host_name = "n2";
    own.environment = kWarn;
    own.hosts_coordinator = true;
    NodeDescription follower;
    follower.host_name = "n1";
    follower.environment = required ? kWarn : kInfo;
    follower.past = Past{};
    REQUIRE(check.admits(NodeId{1}, own));
    check.joined(NodeId{1}, own);
    REQUIRE(check.admits(NodeId{2}, follower));
    check.joined(NodeId{2}, follower);
    CHECK(check.ready_to_start());
    CHECK(check.take_actions().ask.empty());
    // A newcomer is compared as under the first coordinator.
    NodeDescription newcomer = follower;
    newcomer.host_name = "n3";
    newcomer.past.reset();
    newcomer.environment = kTrace;
    CHECK(check.admits(NodeId{3}, newcomer) != required);
    if (!required) {
      check.joined(NodeId{3}, newcomer);
    }
    CHECK(check.take_actions().ask == std::vector<NodeId>{NodeId{1}, NodeId{3}});
  }
}

TEST_CASE("Agents of one machine are told apart by their process") {
  EnvironmentCheck check(false, false);
  NodeDescription node;
  node.host_name = "box";
  node.environment = kInfo;
  node.agent_pid = 10;
  check.joined(NodeId{1}, node);
  node.environment = kWarn;
  node.agent_pid = 11;
  check.joined(NodeId{2}, node);
  REQUIRE(check.ready_to_start());
  REQUIRE(check.take_actions().ask.size() == 2);
  check.on_facts(NodeId{1}, debug("INFO"));
  check.on_facts(NodeId{2}, debug("WARN"));
  const std::string table = check.take_actions().table;
  CHECK(table.find("INFO   box (agent 10)") != std::string::npos);
  CHECK(table.find("WARN   box (agent 11)") != std::string::npos);
}

TEST_CASE(
    "Of a thousand nodes that all differ a bounded number is asked, and the rest is counted") {
  EnvironmentCheck check(false, false);
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    NodeDescription node;
    node.host_name = "n" + std::to_string(i);
    node.environment = {7, i};
    check.joined(NodeId{i}, node);
  }
  REQUIRE(check.ready_to_start());
  const auto step = check.take_actions();
  CHECK(step.ask.size() == 1 + EnvironmentCheck::kComparedMax);
  std::string table;
  for (const NodeId id : step.ask) {
    check.on_facts(id, debug(std::to_string(number(id))));
    table += check.take_actions().table;
  }
  CHECK(table.find("and 967 nodes more, each unlike any of these") != std::string::npos);
  CHECK(check.take_actions().table.empty());
}

TEST_CASE(
    "Whatever joins, leaves and answers late, a strict job runs nodes that agree, or says why "
    "not") {
  std::mt19937 random(11);
  int ran = 0;
  int disagreed = 0;
  for (int round = 0; round < 2000; ++round) {
    Nodes s(strict(elastic(2, 5)));
    std::map<NodeId, EnvironmentDigest> here;
    std::deque<NodeId> to_answer;
    const auto look = [&] {
      for (const AskEnvironment& ask : s.all<AskEnvironment>()) {
        to_answer.push_back(ask.node);
      }
      for (const Reject& reject : s.all<Reject>()) {
        here.erase(reject.node);
      }
      std::set<EnvironmentDigest> world;
      for (const AssignWorld& order : s.all<AssignWorld>()) {
        world.insert(here.at(order.node));
      }
      REQUIRE(world.size() <= 1);
    };
    const auto answer = [&] {
      const NodeId one = to_answer.front();
      to_answer.pop_front();
      if (here.contains(one)) {
        s.told(one, here.at(one) == kInfo ? "INFO" : "WARN");
      }
    };
    for (int step = 0; step < 30 && s.state() != JobState::over; ++step) {
      const auto what = random() % 4;
      if (what == 0 || here.size() < 2) {
        const EnvironmentDigest digest = random() % 8 == 0 ? kWarn : kInfo;  // so many jobs begin
        const NodeId id = s.join_with("n" + std::to_string(step), digest);
        here[id] = digest;
      } else if (what == 1 && here.size() > 3) {
        const NodeId gone =
            std::next(here.begin(), static_cast<int>(random() % here.size()))->first;
        here.erase(gone);
        s.lose(gone);
      } else if (what == 2 && !to_answer.empty()) {
        answer();
      } else {
        s.wait(10s);
        s.time_passed();
      }
      look();
      for (const StopWorkers& stop : s.all<StopWorkers>()) {
        s.stopped(stop.node);
        look();
      }
    }
    while (!to_answer.empty() && s.state() != JobState::over) {
      answer();
      look();
    }
    if (s.state() != JobState::over) {
      s.wait(31s);
      s.time_passed();
      look();
    }
    ran += s.job().attempt() ? 1 : 0;
    const auto ends = s.all<FinishJob>();
    disagreed += !ends.empty() && ends.front().summary->verdict == Verdict::disagreed ? 1 : 0;
    CHECK((s.state() == JobState::over || here.size() < 2 || s.state() == JobState::running));
  }
  CHECK(ran > 500);
  CHECK(disagreed > 100);
}

TEST_CASE("A node that says otherwise of --require-same-env is refused") {
  Story s(fixed(2));
  NodeDescription node = s.description("n1");
  node.require_same_env = true;
  s.join(node);
  CHECK(s.only<Reject>().why == "its --require-same-env is 'given', the job's is 'not given'");
}
