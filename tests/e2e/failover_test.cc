// The coordinator's host dies, is cut off, or comes back: the job goes on with the same attempts'
// numbering, on one side of any cut alone. Nodes are network namespaces.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/event_lines.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/needs.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// Workers that run until they are told to end.
class Endless {
 public:
  [[nodiscard]] std::vector<std::string> program() const {
    return shell("echo rank=$RANK world=$WORLD_SIZE store=$MASTER_ADDR; while [ ! -e " +
                 dir_.file("end") + " ] && [ ! -e " + dir_.file("end") +
                 "$RANK ]; do sleep 0.02; done");
  }
  void end() const { std::ofstream(dir_.file("end")) << "now"; }
  /// One of them alone.
  void end(int rank) const { std::ofstream(dir_.file("end" + std::to_string(rank))) << "now"; }

 private:
  TempDir dir_;
};

ClusterRequest five_nodes(const Endless& endless, const std::string& nnodes,
                          const std::vector<std::string>& more = {}) {
  ClusterRequest request{.nodes = 5,
                         .workers_per_node = 1,
                         .options = {"--nnodes", nnodes, "--heartbeat-timeout", "3", "--rdzv-conf",
                                     "last_call_timeout=1", "--join-timeout", "30"},
                         .program = endless.program(),
                         .namespaces = true};
  request.options.insert(request.options.end(), more.begin(), more.end());
  return request;
}

}  // namespace

TEST_CASE("I-6: when the coordinator's agent is killed, a standby takes over at once") {
  NEEDS_NAMESPACES();
  const Endless endless;
  Cluster cluster(five_nodes(endless, "3:5"));
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1, 2, 3, 4}, "world=5"));
  ::kill(cluster.node(0).pid(), SIGKILL);
  CHECK(cluster.all_say({1, 2, 3, 4}, "world=4"));
  endless.end();
  INFO(cluster.report());
  for (int node = 1; node < 5; ++node) {
    CHECK(cluster.node(node).exit_code() == 0);
    CHECK(contains(cluster.node(node).err(), "the coordinator was lost"));
  }
  CHECK(cluster.said("this node is the coordinator from here on: term "));
  // I-7: nobody is sent to the store of the dead.
  CHECK(cluster.said("world=5 store=10.77.0.1"));
  CHECK_FALSE(cluster.said("world=4 store=10.77.0.1"));
}

TEST_CASE("Of two members and a spare two outlive the host of the coordinator") {
  NEEDS_NAMESPACES();
  const Endless endless;
  Cluster cluster(
      {.nodes = 3,
       .workers_per_node = 1,
       .options = {"--nnodes", "2", "--heartbeat-timeout", "20", "--join-timeout", "30"},
       .program = endless.program(),
       .environment = {{"LOGLEVEL", "INFO"}},
       .namespaces = true});
  REQUIRE(cluster.start_in_order(2));
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  cluster.start(2);
  REQUIRE(cluster.node(2).wait_for_err("this node is voter"));
  ::kill(cluster.node(0).pid(), SIGKILL);
  CHECK(cluster.all_say({1, 2}, "world=2"));
  CHECK(cluster.node(1).wait_for_out("world=2", 2));
  endless.end();
  INFO(cluster.report());
  CHECK(cluster.node(1).exit_code() == 0);
  CHECK(cluster.node(2).exit_code() == 0);
  CHECK(cluster.said(": 1 incident,"));
}

TEST_CASE("An agent that stands still for 0.4 heartbeat timeouts is no loss, nor are the others") {
  const Endless endless;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", "6"},
                   .program = endless.program()});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  for (const int node : {0, 1, 0, 0}) {  // the first is the coordinator's
    const pid_t agent = cluster.agent(node);
    REQUIRE(agent != 0);
    ::kill(agent, SIGSTOP);
    const auto stopped_at = std::chrono::steady_clock::now();
    CHECK_FALSE(wait_at_most(2400ms, [&] { return contains(cluster.node(2).err(), "was lost"); }));
    ::kill(agent, SIGCONT);
    INFO("it stood still for " << (std::chrono::steady_clock::now() - stopped_at) / 1ms << " ms");
    CHECK_FALSE(cluster.node(2).wait_for_err("was lost", 1, 1200ms));  // until beats have come
  }
  endless.end();
  INFO(cluster.report());
  CHECK(cluster.exit_codes() == std::vector<int>(3, 0));
  CHECK(count_of(cluster.out(), "world=3") == 3);
  CHECK_FALSE(cluster.said("was lost"));
}

TEST_CASE("An agent that is lost because it stood still comes back once") {
  const int still = GENERATE(0, 1);  // the coordinator's is the first
  const Endless endless;
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", "1"},
                   .program = endless.program()});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  const pid_t agent = cluster.agent(still);
  REQUIRE(agent != 0);
  ::kill(agent, SIGSTOP);
  const bool lost = cluster.node(1 - still).wait_for_err("was lost");
  ::kill(agent, SIGCONT);
  CHECK(lost);
  for (const int node : {0, 1}) {
    CHECK(cluster.node(node).wait_for_out("world=2", 2));
  }
  endless.end();
  CHECK(cluster.exit_codes() == std::vector<int>(2, 0));
  INFO(cluster.report());
  CHECK(cluster.said(": 1 incident,"));
  CHECK(count_of(cluster.out(), "world=2") == 4);
}

TEST_CASE(
    "A node with a --node-rank that gave its coordinator up for a moment comes back as itself") {
  NEEDS_NAMESPACES();
  const Endless endless;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", "3", "--join-timeout", "30"},
                   .program = endless.program(),
                   .namespaces = true});
  for (int node = 0; node < 3; ++node) {
    cluster.start(node, {.options = {"--node-rank", std::to_string(node)}});
  }
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  for (int time = 1; time <= 2; ++time) {
    cluster.network().cut(2);
    REQUIRE(cluster.node(2).wait_for_err("the coordinator was lost", time));
    cluster.network().heal(2);  // before the coordinator takes it for lost
    INFO(cluster.report());
    REQUIRE(cluster.node(2).wait_for_out("world=3", time + 1));
  }
  endless.end();
  CHECK(cluster.exit_codes() == std::vector<int>(3, 0));
  CHECK_FALSE(cluster.said("is taken by"));
}

TEST_CASE("A node that was cut off while the world changed twice is found when it is back") {
  NEEDS_NAMESPACES();
  const Endless endless;
  Cluster cluster(five_nodes(endless, "3:5", {}));
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1, 2, 3, 4}, "world=5"));
  cluster.network().cut(0);
  REQUIRE(cluster.all_say({1, 2, 3, 4}, "world=4"));
  cluster.node(4).signal(SIGKILL);
  REQUIRE(cluster.all_say({1, 2, 3}, "world=3"));
  INFO(cluster.report());
  cluster.network().heal(0);
  CHECK(wait_until([&] { return contains(cluster.node(0).out(), "world=4"); }, kPatience));
  endless.end();
  for (const int node : {0, 1, 2, 3}) {
    CHECK(cluster.node(node).exit_code() == 0);
  }
}

TEST_CASE(
    "I-8: when the coordinator's host vanishes, the others go on within two heartbeat timeouts") {
  NEEDS_NAMESPACES();
  const Endless endless;
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  Cluster cluster(five_nodes(endless, "3:5", {"--event-log", log}));
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1, 2, 3, 4}, "world=5"));
  const auto vanished = std::chrono::system_clock::now().time_since_epoch();
  cluster.network().cut(0);
  REQUIRE(cluster.all_say({1, 2, 3, 4}, "world=4"));
  // Whoever is cut off must be quiet before the others go on.
  CHECK(cluster.workers_of(0).empty());
  INFO(cluster.report());
  const double took = time_of(last_of(events_in(log), "attempt_assigned")) -
                      std::chrono::duration<double, std::milli>(vanished).count();
  CHECK(took < 2 * 3'000);  // about one on an idle machine
  // It is back, and finds who leads now: the job grows.
  cluster.network().heal(0);
  CHECK(wait_until([&] { return cluster.node(0).out().find("world=5", 15) != std::string::npos; },
                   kPatience));
  endless.end();
  for (int node = 0; node < 5; ++node) {
    CHECK(cluster.node(node).exit_code() == 0);
  }
  CHECK(contains(cluster.node(0).err(), "this node is no coordinator any more"));
}

TEST_CASE("Of two nodes the one that is left waits, and goes on when the coordinator is back") {
  NEEDS_NAMESPACES();
  const Endless endless;
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "1:2", "--heartbeat-timeout", "1", "--join-timeout",
                               "60", "--rdzv-conf", "last_call_timeout=60"},
                   .program = endless.program(),
                   .namespaces = true});
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1}, "world=2"));
  ::kill(cluster.node(0).pid(), SIGKILL);
  REQUIRE(cluster.node(1).wait_for_err("searching for the new one"));
  INFO(cluster.report());
  // Alone it must not go on: it cannot know that the other does not. What it says for the second
  // time, 2 s and more after the first, comes several heartbeat timeouts after the loss.
  REQUIRE(cluster.node(1).wait_for_err("waiting for the coordinator at ", 2));
  CHECK(cluster.workers_of(1).empty());
  CHECK_FALSE(contains(cluster.node(1).out(), "world=1"));
  cluster.start(0);
  CHECK(cluster.all_say({0}, "world=2"));
  endless.end();
  CHECK(cluster.exit_codes() == std::vector<int>{0, 0});
}

TEST_CASE("Two of five nodes never go on by themselves, and do so with a third") {
  NEEDS_NAMESPACES();
  const Endless endless;
  // Two would be enough for a job; they are no majority of the five that it had.
  Cluster cluster(five_nodes(endless, "2:5", {"--join-timeout", "60"}));
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1, 2, 3, 4}, "world=5"));
  for (const int lost : {0, 1, 2}) {
    cluster.network().cut(lost);  // from each other too
  }
  for (const int left : {3, 4}) {
    INFO(cluster.report());
    REQUIRE(cluster.node(left).wait_for_err("searching for the new one"));
  }
  // What they write every 2 s comes a second time after a heartbeat timeout and a last call.
  for (const int left : {3, 4}) {
    REQUIRE(cluster.node(left).wait_for_err("waiting for the coordinator at ", 3));
    CHECK(cluster.node(left).wait_for_err("no node can take over as the coordinator: "));
    CHECK(cluster.node(left).wait_for_err("of 5 nodes were reached, 3 are needed"));
    CHECK(cluster.workers_of(left).empty());
  }
  cluster.network().heal(2);
  CHECK(cluster.all_say({2, 3, 4}, "world=3"));
  endless.end();
  for (const int one : {2, 3, 4}) {
    CHECK(cluster.node(one).exit_code() == 0);
  }
  INFO(cluster.report());
  CHECK_FALSE(cluster.said("world=1"));
  CHECK_FALSE(cluster.said("world=2"));
}

TEST_CASE("Agents that are killed with an order unread are known to be dead") {
  const Endless endless;
  Cluster cluster(
      {.nodes = 3,
       .workers_per_node = 1,
       .options = {"--heartbeat-timeout", "6", "--max-restarts", "1", "--join-timeout", "20"},
       .program = endless.program(),
       .environment = {{"LOGLEVEL", "INFO"}}});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  const std::vector<pid_t> agents = {cluster.agent(1), cluster.agent(2)};
  for (const pid_t agent : agents) {
    REQUIRE(agent != 0);
    ::kill(agent, SIGSTOP);
  }
  cluster.signal_worker(0, SIGKILL);
  REQUIRE(cluster.node(0).wait_for_err("attempt 0 stops"));  // the others were told so, too
  for (const pid_t agent : agents) {
    ::kill(agent, SIGKILL);
  }
  for (const int node : {1, 2}) {
    CHECK(cluster.node(node).exit_code() == 128 + SIGKILL);
    cluster.start(node);
  }
  // Of the three that decide two are dead: the coordinator goes on with who came after them.
  CHECK(cluster.all_say({1, 2}, "world=3"));
  endless.end();
  INFO(cluster.report());
  CHECK(cluster.exit_codes() == std::vector<int>(3, 0));
}

TEST_CASE("Nothing starts beside a node whose connection broke on the coordinator's side alone") {
  NEEDS_NAMESPACES();
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "2:3", "--heartbeat-timeout", "6"},
                   .program = shell("echo world=$WORLD_SIZE; sleep 1000"),
                   .namespaces = true});
  REQUIRE(cluster.start_in_order());
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  const std::vector<pid_t> workers = cluster.workers_of(2);
  REQUIRE(workers.size() == 1);
  cluster.network().cut(2);
  if (!cluster.network().abort_connections(0, 2)) {
    SKIP_TEST("kernel", "it cannot end connections by `ss -K`");
  }
  const bool lost = cluster.node(0).wait_for_err("may run workers until its lease is over");
  const bool runs_on = process_runs(workers.front());
  const bool goes_on = cluster.all_say({0, 1}, "world=2");
  const bool overlaps = process_runs(workers.front());
  INFO(cluster.report());
  CHECK(lost);
  CHECK(runs_on);  // else nothing was to be waited for
  CHECK(goes_on);
  CHECK_FALSE(overlaps);
}

TEST_CASE("With a witness, the one of two nodes that is left goes on") {
  NEEDS_NAMESPACES();
  const Endless endless;
  const NetNamespaces network(3);
  const std::string endpoint = network.address(0) + ":29400";
  const auto node = [&](int i) {
    return on_node(network, i,
                   {.endpoint = endpoint,
                    .options = {"--nnodes", "1:2", "--heartbeat-timeout", "3", "--join-timeout",
                                "30", "--rdzv-conf", "last_call_timeout=20"},
                    .program = endless.program()});
  };
  LoneAgent third = node(2);
  third.options = {"--witness", "--heartbeat-timeout", "3"};
  third.program = {};
  third.environment = {{"LOGLEVEL", "INFO"}};
  const auto first = start(node(0));
  const auto second = start(node(1));
  REQUIRE(second->wait_for_out("world=2"));
  const auto witness = start(third);  // while they run, and it does not disturb them
  // It is told the plan, and then that the plan is in use: before, two nodes decide, not three.
  REQUIRE(witness->wait_for_err("this node is voter 2"));
  ::kill(first->pid(), SIGKILL);
  const bool went_on = second->wait_for_out("world=1");
  endless.end();
  INFO(second->report() << witness->report());
  CHECK(went_on);
  CHECK(second->exit_code() == 0);
  CHECK(witness->exit_code() == 0);
}

TEST_CASE("A witness that was given no heartbeat timeout waits for the fence of the job's") {
  NEEDS_NAMESPACES();
  const Endless endless;
  NetNamespaces network(3);
  const std::string endpoint = network.address(0) + ":29400";
  const auto node = [&](int i) {
    return start(on_node(network, i,
                         {.endpoint = endpoint,
                          .options = {"--nnodes", "1:2", "--heartbeat-timeout", "9", "--rdzv-conf",
                                      "last_call_timeout=60"},
                          .program = endless.program()}));
  };
  const auto first = node(0);
  const auto second = node(1);
  REQUIRE(second->wait_for_out("world=2"));
  LoneAgent third = on_node(network, 2, {.endpoint = endpoint, .options = {"--witness"}});
  third.program = {};
  third.environment = {{"LOGLEVEL", "INFO"}};
  const auto witness = start(third);
  const bool stands_by = witness->wait_for_err("this node is voter 2");
  INFO(first->report() << second->report() << witness->report());
  REQUIRE(stands_by);
  const pid_t worker = worker_of(first->pid(), 0);
  REQUIRE(worker != 0);
  network.cut(0);
  REQUIRE(second->wait_for_out("world=1"));
  const bool overlaps = process_runs(worker);
  endless.end();
  INFO(first->report() << second->report() << witness->report());
  CHECK_FALSE(overlaps);
  CHECK(second->exit_code() == 0);
}

namespace {

/// Three nodes that are endpoints, by their names or by their addresses, and one more; the agent at
/// the first endpoint was killed, and the other two go on.
class WithoutTheFirst {
 public:
  WithoutTheFirst(const std::string& last_call, bool by_name) : last_call_(last_call) {
    std::ofstream hosts(hosts_);
    hosts << "127.0.0.1 localhost\n";
    for (int i = 0; i < 3; ++i) {
      const std::string name = "node" + std::to_string(i) + ".cluster";
      hosts << network_.address(i) << " " << name << "\n";
      endpoints_ += (i > 0 ? "," : "") + (by_name ? name : network_.address(i)) + ":29400";
    }
    hosts.close();
    const auto first = start(agent(0));
    second = start(agent(1));
    third = start(agent(2));
    REQUIRE(second->wait_for_out("world=3"));
    REQUIRE(third->wait_for_out("world=3"));
    ::kill(first->pid(), SIGKILL);
    REQUIRE(second->wait_for_out("world=2"));
    REQUIRE(third->wait_for_out("world=2"));
  }
  [[nodiscard]] LoneAgent agent(int i) const {
    return on_node(network_, i,
                   {.endpoint = endpoints_,
                    .options = {"--nnodes", "1:3", "--heartbeat-timeout", "3", "--join-timeout",
                                "30", "--rdzv-conf", "last_call_timeout=" + last_call_},
                    .program = endless_.program(),
                    .hosts_file = hosts_});
  }
  void ends_well(ChildProcess& newcomer) const {
    endless_.end();
    INFO(second->report() << third->report() << newcomer.report());
    CHECK(second->exit_code() == 0);
    CHECK(third->exit_code() == 0);
    CHECK(newcomer.exit_code() == 0);
  }

 private:
  Endless endless_;
  NetNamespaces network_{4};
  TempDir folder_;
  std::string hosts_ = folder_.file("hosts");
  std::string last_call_;
  std::string endpoints_;

 public:
  std::unique_ptr<ChildProcess> second;  ///< these end before their network does
  std::unique_ptr<ChildProcess> third;
};

}  // namespace

TEST_CASE("Who starts anew finds the coordinator at any of the endpoints") {
  NEEDS_NAMESPACES();
  const WithoutTheFirst nodes("20", GENERATE(false, true));
  const auto fourth = start(nodes.agent(3));
  CHECK(fourth->wait_for_out("world=3"));
  nodes.ends_well(*fourth);
}

TEST_CASE("An agent that starts anew at the first endpoint does not begin the job a second time") {
  NEEDS_NAMESPACES();
  const WithoutTheFirst nodes("1", GENERATE(false, true));
  // It would be enough for a job, and the last call is short.
  const auto anew = start(nodes.agent(0));
  CHECK(anew->wait_for_out("world=3"));
  // Who knows of the first endpoint alone is told there where the coordinator is.
  LoneAgent one_place = nodes.agent(3);
  one_place.endpoint = one_place.endpoint.substr(0, one_place.endpoint.find(','));
  const auto fourth = start(one_place);
  CHECK(fourth->wait_for_err("this node is a spare"));
  nodes.ends_well(*anew);
  CHECK_FALSE(contains(anew->out(), "world=1"));
  CHECK_FALSE(contains(anew->err(), "this node is no coordinator any more"));
}

TEST_CASE("A coordinator that dies while it tells the end of the job leaves no work to do again") {
  NEEDS_NAMESPACES();
  const Endless endless;
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", "20"},
                   .program = endless.program(),
                   .environment = {{"LOGLEVEL", "DEBUG"}},
                   .namespaces = true});
  cluster.start_all();
  REQUIRE(cluster.all_say({0, 1, 2}, "world=3"));
  const pid_t first = cluster.agent(0);
  const pid_t second = cluster.agent(1);
  const pid_t third = cluster.agent(2);
  REQUIRE((first != 0 && second != 0 && third != 0));
  // The end cannot be told before one of the others keeps it, and they read nothing now.
  endless.end(1);
  endless.end(2);
  REQUIRE(cluster.node(0).wait_for_err("finished node=", 2));
  REQUIRE((stop_process(second) && stop_process(third)));
  endless.end();
  REQUIRE(cluster.node(0).wait_for_err("ends=yes"));
  REQUIRE(wait_until([&] { return process_waits(first); }));  // it has sent the end, too
  // The second keeps the end, and the coordinator does not hear of that.
  ::kill(first, SIGSTOP);
  ::kill(second, SIGCONT);
  REQUIRE(cluster.node(1).wait_for_err("stores its end"));
  ::kill(first, SIGKILL);
  ::kill(third, SIGCONT);
  const int second_ended = cluster.node(1).exit_code();
  const int third_ended = cluster.node(2).exit_code();
  INFO(cluster.report());
  CHECK(second_ended == 0);
  CHECK(third_ended == 0);
  CHECK(count_of(cluster.node(1).out() + cluster.node(2).out(), "world=") == 2);
  const std::string said = cluster.node(1).err() + cluster.node(2).err();
  CHECK(count_of(said, "this node is the coordinator from here on") == 1);
}

TEST_CASE(
    "Half of the voters that store the end, and are all that is left, end as the others did") {
  const Endless endless;
  Cluster cluster({.nodes = 4,
                   .workers_per_node = 1,
                   .options = {"--heartbeat-timeout", "20"},
                   .program = endless.program(),
                   .environment = {{"LOGLEVEL", "DEBUG"}}});
  for (int node = 0; node < 4; ++node) {  // so that ranks are nodes
    cluster.start(node);
    REQUIRE(cluster.node(0).wait_for_err("welcome node=", static_cast<std::size_t>(node) + 1));
  }
  REQUIRE(cluster.all_say({0, 1, 2, 3}, "world=4"));
  const pid_t first = cluster.agent(0);
  const std::vector<pid_t> others{cluster.agent(1), cluster.agent(2), cluster.agent(3)};
  for (const int rank : {1, 2, 3}) {
    endless.end(rank);
  }
  REQUIRE(cluster.node(0).wait_for_err("finished node=", 3));
  for (const pid_t other : others) {
    REQUIRE((other != 0 && stop_process(other)));
  }
  endless.end();
  REQUIRE(cluster.node(0).wait_for_err("ends=yes"));
  REQUIRE(wait_until([&] { return process_waits(first); }));  // it has sent the end, too
  // The third and the fourth store the end, and nobody receives their acknowledgement.
  ::kill(first, SIGSTOP);
  ::kill(others[1], SIGCONT);
  ::kill(others[2], SIGCONT);
  REQUIRE(cluster.node(2).wait_for_err("stores its end"));
  REQUIRE(cluster.node(3).wait_for_err("stores its end"));
  ::kill(first, SIGKILL);
  ::kill(others[0], SIGKILL);
  CHECK(cluster.node(0).exit_code() == 128 + SIGKILL);
  CHECK(cluster.node(1).exit_code() == 128 + SIGKILL);
  const std::vector<int> codes{cluster.node(2).exit_code(), cluster.node(3).exit_code()};
  INFO(cluster.report());
  CHECK(codes == std::vector<int>(2, 0));
  CHECK(cluster.said("2 of 4 nodes are left, and the job is over"));
}

}  // namespace ddprun::test
