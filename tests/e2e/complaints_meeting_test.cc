// What users of torchrun report of jobs that do not find together: I-3 (nobody knows that the
// endpoint's name is its own, so nobody hosts), I-4 (names and addresses that other nodes cannot
// use), I-5 (two jobs on one machine take each other's ports): each situation for real.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/lone_agent.h"
#include "tests/support/event_wait.h"
#include "tests/support/free_port.h"
#include "tests/support/needs.h"
#include "tests/support/net_namespaces.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

/// Says where its store is, and that it can be reached.
const std::string kReach =
    "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT && echo rank=$RANK store=$MASTER_ADDR "
    "port=$MASTER_PORT gloo=$GLOO_SOCKET_IFNAME nccl$NCCL_SOCKET_IFNAME; ";
const std::vector<std::string> kReachStore = shell(kReach);

struct Said {
  std::string rank;
  std::string store;
  std::string port;
  std::string gloo;
  std::string nccl;
};

/// Of an agent with one worker that ran kReach.
Said said(const ChildProcess& agent) {
  std::map<std::string, std::string> values;
  std::istringstream words(agent.out());
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    values[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
  }
  return {values["rank"], values["store"], values["port"], values["gloo"], values["nccl"]};
}

void check_ran(ChildProcess& agent) {
  const int code = agent.exit_code();
  INFO(agent.report());
  CHECK(code == 0);
  // What gathers at once says nothing but, on the first node, that the job has no token.
  const bool is_quiet = agent.err().empty() || (count_of(agent.err(), "\n") == 1 &&
                                                contains(agent.err(), "can join this job"));
  CHECK(is_quiet);
}

const std::vector<std::string> kTwo{"--nnodes", "2"};

/// Where this agent listens; its workers do not. Its guardian has the same descriptors.
std::vector<int> ports_of(const ChildProcess& guardian) {
  return listening_ports_of(guardian.pid());
}

}  // namespace

TEST_CASE(
    "I-3: the endpoint's host knows itself by an alias, another interface, a further address") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(2);
  nodes.connect_directly(0, 1);
  nodes.add_address(0, "10.77.0.101/24", "eth0");
  const TempDir folder;
  const std::string hosts = folder.file("hosts");
  std::ofstream(hosts) << "127.0.0.1 localhost\n10.77.0.1 train-master.example train-master\n";
  struct Case {
    std::string endpoint;
    std::string store;
    std::string interface;
  };
  const std::vector<Case> cases{{"train-master:29400", "10.77.0.1", "eth0"},
                                {"10.78.0.1:29400", "10.78.0.1", "eth1"},
                                {"10.77.0.101:29400", "10.77.0.101", "eth0"}};
  for (const Case& one : cases) {
    INFO(one.endpoint);
    const LoneAgent agent{
        .endpoint = one.endpoint, .options = kTwo, .program = kReachStore, .hosts_file = hosts};
    const auto other = start(on_node(nodes, 1, agent));  // comes first, and waits for the host
    const auto host = start(on_node(nodes, 0, agent));
    check_ran(*host);
    check_ran(*other);
    CHECK(said(*host).rank == "0");
    CHECK(said(*host).store == one.store);
    CHECK(said(*other).store == one.store);
    CHECK(said(*host).gloo == one.interface);
    CHECK(said(*other).gloo == one.interface);
    CHECK(said(*host).nccl == one.interface);
    CHECK(said(*other).nccl == one.interface);
  }
}

TEST_CASE("I-3: a host that calls itself 0.0.0.0 is found at its address") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(2);
  const auto host = start(
      on_node(nodes, 0, {.endpoint = "0.0.0.0:29400", .options = kTwo, .program = kReachStore}));
  const auto other = start(
      on_node(nodes, 1, {.endpoint = "10.77.0.1:29400", .options = kTwo, .program = kReachStore}));
  check_ran(*host);
  check_ran(*other);
  CHECK(said(*host).store == "10.77.0.1");
  CHECK(said(*other).store == "10.77.0.1");
}

TEST_CASE("I-3: two agents on one machine meet though they call it by different names") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(1);
  for (const std::string first : {"localhost:29400", "10.77.0.1:29400"}) {
    INFO(first);
    const auto one =
        start(on_node(nodes, 0, {.endpoint = first, .options = kTwo, .program = kReachStore}));
    REQUIRE(listens(first.substr(0, first.find(':')), 29400, nodes.name(0)));
    const auto other =
        start(on_node(nodes, 0,
                      {.endpoint = first[0] == 'l' ? "10.77.0.1:29400" : "127.0.0.1:29400",
                       .options = kTwo,
                       .program = kReachStore}));
    check_ran(*one);
    check_ran(*other);
    CHECK(said(*one).store == said(*other).store);
  }
}

TEST_CASE("I-3: two nodes that both host, because the endpoint means each of them, are told so") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(2);
  const TempDir folder;
  const std::string hosts = folder.file("hosts");
  std::ofstream(hosts) << "127.0.0.1 localhost\n127.0.1.1 head\n";
  struct Case {
    std::string endpoint;
    std::vector<std::string> more;
    std::string note;
  };
  const std::vector<Case> cases{
      {"localhost:29401", {}, "the endpoint localhost means each machine itself"},
      {"0.0.0.0:29402", {}, "the endpoint 0.0.0.0 means each machine itself"},
      {"head:29403", {}, "the name head means a loopback address here (127.0.1.1)"},
      {"10.77.0.1:29404", {"--rdzv-conf", "is_host=1"}, "because it was told to"}};
  std::vector<std::unique_ptr<ChildProcess>> agents;
  for (const Case& one : cases) {
    std::vector<std::string> options{"--nnodes", "2", "--join-timeout", "3"};
    options.insert(options.end(), one.more.begin(), one.more.end());
    for (const int node : {0, 1}) {
      agents.push_back(start(on_node(
          nodes, node, {.endpoint = one.endpoint, .options = options, .hosts_file = hosts})));
    }
  }
  for (std::size_t i = 0; i < agents.size(); ++i) {
    CHECK(agents[i]->exit_code() == 1);
    INFO(agents[i]->report());
    CHECK(contains(line_after(agents[i]->err(), "[ddprun]   note  "), cases[i / 2].note));
    CHECK(contains(line_after(agents[i]->err(), "ddprun: "), cases[i / 2].note));
  }
}

TEST_CASE("I-4: no node can resolve any host name, and all get one numeric address they reach") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(3);
  const LoneAgent agent{
      .endpoint = "10.77.0.1:29400", .options = {"--nnodes", "3"}, .program = kReachStore};
  std::vector<std::unique_ptr<ChildProcess>> agents;
  for (const int node : {2, 1, 0}) {
    agents.push_back(start(on_node(nodes, node, agent)));
  }
  for (const auto& one : agents) {
    check_ran(*one);
    CHECK(said(*one).store == "10.77.0.1");
    CHECK(said(*one).port == said(*agents[0]).port);
    CHECK(said(*one).gloo == "eth0");
  }
}

TEST_CASE("I-4: nodes on two networks each get the store's address on their own") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(3);
  nodes.connect_directly(0, 2);
  nodes.cut(2);  // it has the second network alone
  const std::vector<std::string> options{"--nnodes", "3"};
  const auto host = start(on_node(
      nodes, 0, {.endpoint = "10.77.0.1:29400", .options = options, .program = kReachStore}));
  const auto near = start(on_node(
      nodes, 1, {.endpoint = "10.77.0.1:29400", .options = options, .program = kReachStore}));
  const auto far = start(on_node(
      nodes, 2, {.endpoint = "10.78.0.1:29400", .options = options, .program = kReachStore}));
  for (ChildProcess* const one : {host.get(), near.get(), far.get()}) {
    check_ran(*one);
  }
  CHECK(said(*near).store == "10.77.0.1");
  CHECK(said(*near).gloo == "eth0");
  CHECK(said(*far).store == "10.78.0.1");
  CHECK(said(*far).gloo == "eth1");
  CHECK(said(*host).port == said(*far).port);
}

TEST_CASE("I-4: an IPv6 loopback endpoint gives all nodes the same MASTER_ADDR") {
  const std::string endpoint = "[::1]:" + std::to_string(free_port());
  const LoneAgent agent{.endpoint = endpoint, .options = kTwo, .program = kReachStore};
  const auto one = start(agent);
  const auto other = start(agent);
  check_ran(*one);
  check_ran(*other);
  CHECK(said(*one).store == "::1");
  CHECK(said(*other).store == "::1");
  CHECK(said(*one).gloo.empty());  // loopback is where Gloo looks anyway
  CHECK(said(*one).nccl.empty());
}

TEST_CASE("I-4: an interface that the user chose for Gloo stays chosen") {
  NEEDS_NAMESPACES();
  NetNamespaces nodes(2);
  const LoneAgent agent{.endpoint = "10.77.0.1:29400",
                        .options = kTwo,
                        .program = kReachStore,
                        .environment = {{"GLOO_SOCKET_IFNAME", "mine"}}};
  const auto one = start(on_node(nodes, 0, agent));
  const auto other = start(on_node(nodes, 1, agent));
  check_ran(*one);
  check_ran(*other);
  CHECK(said(*one).gloo == "mine");
  CHECK(said(*other).gloo == "mine");
}

TEST_CASE("I-5: jobs that share a machine and choose no port never collide") {
  const TempDir folder;
  const std::string go = folder.file("go");
  const std::vector<std::string> program =
      shell(kReach + "until [ -e " + go + " ]; do sleep 0.05; done");
  const std::string other_endpoint = local_endpoint();
  const std::vector<LoneAgent> agents{
      {.options = {"--standalone"}, .program = program},
      {.options = {"--standalone"}, .program = program},
      {.options = {"--nproc-per-node", "1"}, .program = program},
      {.options = {"--nproc-per-node", "1"}, .program = program},
      {.options = {"--rdzv-backend", "c10d"}, .program = program},
      {.options = {"--rdzv-backend", "c10d"}, .program = program},
      {.endpoint = local_endpoint(), .options = {"--rdzv-id", "same"}, .program = program},
      {.endpoint = other_endpoint, .options = {"--rdzv-id", "same"}, .program = program}};
  std::vector<std::unique_ptr<ChildProcess>> jobs;
  for (const LoneAgent& agent : agents) {
    jobs.push_back(start(agent));
  }
  std::set<std::string> ports;
  for (const auto& job : jobs) {
    REQUIRE(job->wait_for_out("rank=0 "));
    ports.insert(said(*job).port);
  }
  CHECK(ports.size() == jobs.size());
  std::ofstream(go) << "go";
  for (const auto& job : jobs) {
    check_ran(*job);
  }
}

TEST_CASE("I-5: a node does not stray into a job whose agent was given its port by the system") {
  const int port = free_port();
  LoneAgent node{.endpoint = "127.0.0.1:" + std::to_string(port),
                 .options = {"--nnodes", "2:3"},
                 .program = shell("echo ready; exec sleep 1000")};
  std::vector<std::unique_ptr<ChildProcess>> job;
  job.push_back(start(node));
  REQUIRE(listens("127.0.0.1", port));
  job.push_back(start(node));
  job.push_back(start(node));
  const auto check_all_ports = [&](std::size_t first, int times) {
    for (std::size_t place = first; place < job.size(); ++place) {
      REQUIRE(job[place]->wait_for_out("ready", times));
    }
    int refusals = 0;
    for (std::size_t place = 1; place < job.size(); ++place) {
      for (const int one : ports_of(*job[place])) {
        if (one == port) {
          continue;  // it took the endpoint over
        }
        node.endpoint = "127.0.0.1:" + std::to_string(one);
        const auto stray = start(node);
        CHECK(stray->exit_code() == 1);
        INFO(stray->report());
        CHECK(stray->out().empty());
        refusals += count_of(stray->err(), "its job meets elsewhere");
      }
    }
    return refusals;
  };
  CHECK(check_all_ports(0, 1) == 2);  // at both gates
  job[0].reset();
  CHECK(check_all_ports(1, 2) == 2);  // one of them is the coordinator's now
}

}  // namespace ddprun::test
