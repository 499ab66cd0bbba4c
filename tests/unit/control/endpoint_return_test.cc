// An agent that begins at an endpoint of its job while the job goes on elsewhere: it is called, and
// yields. Real followers and coordinators on loopback, all on one io_context.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <map>
#include <string>
#include <vector>

#include "rendezvous/control/coordinator_config.h"
#include "rendezvous/control/follower.h"
#include "rendezvous/control/peer_rpc.h"
#include "tests/support/free_port.h"
#include "tests/unit/control/job.h"

using namespace ddprun;

namespace {

constexpr auto kLimit = 30s;

/// One agent; what it would do to workers it only writes down.
class OneNode : public FollowerHandler {
 public:
  OneNode(Loop& loop, std::vector<Endpoint> endpoints, int rank,
          std::chrono::milliseconds last_call, std::chrono::milliseconds heartbeat,
          bool may_host = true)
      : loop_(loop) {
    FollowerOptions options;
    options.endpoints = std::move(endpoints);
    options.failover = true;
    if (!may_host) {
      options.is_host = false;
    }
    options.heartbeat_timeout = heartbeat;
    options.join_timeout = 120s;
    options.node.host_name = "n" + std::to_string(rank);
    options.node.node_rank = rank;
    options.node.job_id = options.coordinator.job_id = "job";
    options.node.min_nodes = options.coordinator.min_nodes = 2;
    options.node.max_nodes = options.coordinator.max_nodes = 4;
    options.node.program = "train";
    options.coordinator.join_timeout = options.join_timeout;
    options.coordinator.last_call_timeout = last_call;
    options.coordinator.heartbeat_timeout = heartbeat;
    CoordinatorHooks led;
    led.open_store = [](AttemptNumber, const std::vector<std::string>&) {
      return Result<std::uint16_t>(std::uint16_t{1000});
    };
    follower =
        std::make_unique<Follower>(loop.io, std::move(options), *this, std::move(led), loop.log);
    follower->start();
  }

  /// As the agent says it once its workers are gone.
  void quiet() {
    quiet_at_once = true;  // it is held no longer, whatever it loses later
    boost::asio::post(loop_.io, [this] { follower->quiet(); });
  }
  [[nodiscard]] bool leads() const { return follower->coordinator() != nullptr; }
  [[nodiscard]] bool is_in_world_of(int nodes) const {
    return world && world->group_world_size == nodes;
  }

  std::optional<World> world;
  std::optional<RendezvousStatus> table;
  std::optional<Error> failure;
  bool lost = false;
  bool quiet_at_once = true;

  std::unique_ptr<Follower> follower;

 private:
  void on_assigned(const World& order) override {
    world = order;
    follower->client()->workers_started(order.attempt);
  }
  void on_stop(const message::Stop& order) override {
    follower->client()->workers_stopped(order.attempt, {}, {});
  }
  void on_finished(const JobSummary&) override {}
  void on_waiting(const RendezvousStatus& told) override { table = told; }
  void on_lost(const Error&) override {
    lost = true;
    if (quiet_at_once) {
      quiet();
    }
  }
  void on_failed(const Error& why) override { failure = why; }

  Loop& loop_;
};

/// How many connections have come to it since the last look.
int accepted(const Fd& listener, std::vector<Fd>& connections) {
  int count = 0;
  for (int fd = 0; (fd = ::accept(listener.get(), nullptr, nullptr)) >= 0; ++count) {
    connections.emplace_back(fd);
  }
  return count;
}

message::Follow call_of(Term term, std::uint16_t port) {
  return {"job", term, {"127.0.0.1"}, port, message::JobOptions{2, 4, 0, false}};
}

PeerAnswer call(Loop& loop, std::uint16_t port, const message::Follow& said) {
  std::optional<PeerAnswer> answer;
  const auto handle = rpc_to_peer(loop.io, {{"127.0.0.1"}, port, said, 5s},
                                  [&](const PeerAnswer& told) { answer = told; });
  loop.until([&] { return answer.has_value(); });
  return *answer;
}

/// Nodes 0, 1 and 2 of a job of 2 to 4; the first endpoint is node 0's.
class Nodes {
 public:
  Nodes() {
    for (Listening& one : silent_) {
      one = listen_at("127.0.0.1", 0);
      REQUIRE(one.socket);
      of_first_.push_back({"127.0.0.1", port_of(one.socket)});
      of_others_.push_back(of_first_.back());
    }
  }
  void start(int rank, std::chrono::milliseconds last_call = 500ms) {
    nodes_[rank] = std::make_unique<OneNode>(loop, rank == 0 ? of_first_ : of_others_, rank,
                                             last_call, 1s, rank == 0);
  }
  /// Knows of the first endpoint alone.
  void start_newcomer(int rank) {
    nodes_[rank] =
        std::make_unique<OneNode>(loop, std::vector<Endpoint>{first_}, rank, 120s, 1s, false);
  }
  OneNode& operator[](int rank) { return *nodes_.at(rank); }
  void kill(int rank) { nodes_.erase(rank); }
  /// These two keep their workers until the test calls quiet().
  void kill_and_hold(int rank, int one, int other) {
    for (const int held : {one, other}) {
      nodes_.at(held)->quiet_at_once = nodes_.at(held)->lost = false;
    }
    kill(rank);
    loop.until([&] { return nodes_.at(one)->lost && nodes_.at(other)->lost; }, kLimit);
    (void)asked_third_endpoint();
  }
  void all_in_world_of(int count) {
    loop.until(
        [&] {
          return std::all_of(nodes_.begin(), nodes_.end(),
                             [&](const auto& n) { return n.second->is_in_world_of(count); });
        },
        kLimit);
  }
  int leader() {
    int found = -1;
    loop.until(
        [&] {
          for (const auto& [rank, node] : nodes_) {
            found = node->leads() ? rank : found;
          }
          return found >= 0;
        },
        kLimit);
    return found;
  }
  /// Since the last call.
  bool asked_third_endpoint() { return accepted(silent_[0].socket, connections_) > 0; }

  Loop loop;

 private:
  Endpoint first_{"127.0.0.1", test::free_port()};
  Endpoint second_{"127.0.0.1", test::free_port()};
  /// Further endpoints, which take connections and answer nobody: each costs a second.
  std::array<Listening, 3> silent_;
  std::vector<Fd> connections_;
  std::vector<Endpoint> of_first_{first_, second_};
  /// As if the first endpoint were another machine: they listen nowhere but at the second.
  std::vector<Endpoint> of_others_{{"127.0.0.1", test::free_port()}, second_, first_};
  std::map<int, std::unique_ptr<OneNode>> nodes_;
};

}  // namespace

TEST_CASE("An agent that starts anew while the others elect joins them, with those it gathered") {
  Nodes nodes;
  nodes.start(0);
  nodes.loop.until([&] { return nodes[0].leads(); }, kLimit);
  nodes.start(1);
  nodes.start(2);
  nodes.all_in_world_of(3);
  // Its next life is no coordinator, so its port is one that nobody knows later.
  nodes.kill(0);
  const int second = nodes.leader();
  const int other = 3 - second;
  nodes.all_in_world_of(2);
  nodes.start(0);
  nodes.all_in_world_of(3);
  // It takes over, as the first of the standbys: the other one's turn is later.
  nodes.kill_and_hold(second, 0, other);
  nodes[other].quiet();
  nodes[0].quiet();
  REQUIRE(nodes.leader() == 0);
  nodes.start(second);
  nodes.all_in_world_of(3);
  // Now its agent dies, and is restarted before any of the others looks for another coordinator.
  nodes.kill_and_hold(0, 1, 2);
  nodes.start(0, 120s);
  // It has asked the second endpoint, in vain, and asks the third one; its own is not open yet.
  nodes.loop.until([&] { return nodes.asked_third_endpoint(); }, kLimit);
  nodes[1].quiet();
  nodes[2].quiet();
  const int third = nodes.leader();
  REQUIRE(third != 0);
  nodes.loop.until([&] { return nodes[0].leads(); }, kLimit);
  // Both halves wait.
  nodes.start_newcomer(3);
  nodes.all_in_world_of(4);
  CHECK(nodes[third].leads());
  CHECK_FALSE(nodes[0].leads());
  CHECK(nodes[0].world->attempt == nodes[3].world->attempt);
}

TEST_CASE("A coordinator yields at its endpoint to a leader of its own job, until it has a world") {
  Job job(2, 4, 0);
  job.options.last_call_timeout = 120s;
  int deposed = 0;
  job.hooks.deposed = [&](const StepDown&) { ++deposed; };
  job.open();
  const auto first = job.local("n1");
  message::Follow said = call_of(Term{2}, 1);
  SECTION("of another job: not even its term is told") {
    said.job_id = "other";
    const PeerAnswer answer = call(job.loop, job.port, said);
    REQUIRE(answer.said);
    CHECK(std::get<message::Moved>(*answer.said).term == Term{});
    CHECK(deposed == 0);
  }
  SECTION("of a job with this id and other options") {
    said.to_endpoint->max_nodes = 3;
    (void)call(job.loop, job.port, said);
    CHECK(deposed == 0);
  }
  SECTION("of an earlier term") {
    said.term = Term{0};
    (void)call(job.loop, job.port, said);
    CHECK(deposed == 0);
  }
  SECTION("while it gathers, whoever it has let in") {
    const auto second = job.remote("n2");
    job.loop.until([&] { return job.loop.logged("host=n2"); });
    (void)call(job.loop, job.port, said);
    job.loop.until([&] { return deposed == 1; });
  }
  SECTION("with a world: to a call to a voter alone") {
    std::vector<std::unique_ptr<Agent>> others;
    for (const char* host : {"n2", "n3", "n4"}) {
      others.push_back(job.remote(host));
    }
    job.loop.until([&] { return first->world.has_value(); });
    (void)call(job.loop, job.port, said);
    job.loop.run_for(50ms);
    CHECK(deposed == 0);
    said.to_endpoint.reset();
    (void)call(job.loop, job.port, said);
    job.loop.until([&] { return deposed == 1; });
  }
}

TEST_CASE("A coordinator that began yields to the leader of a term that it only rose to") {
  Job job(2, 4, 0);
  job.options.last_call_timeout = 120s;
  job.options.self = VoterId{1};
  int deposed = 0;
  job.hooks.deposed = [&](const StepDown&) { ++deposed; };
  job.open();
  NodeDescription host = job.describe("n1");
  host.voter = job.options.self;
  auto end = job.coordinator->connect_local();
  REQUIRE(end.has_value());
  const auto first = job.start(host, std::move(*end));
  // One that remembers the term before: this coordinator's is one more now, as the leader's is.
  NodeDescription survivor = job.describe("n2");
  survivor.voter = VoterId{2};
  survivor.past = Past{Term{1}, AttemptNumber{3}, make_configuration(Term{1}, VoterId{3}, 1), 3, 1};
  const auto second = job.start(survivor, connect_to("127.0.0.1", job.port));
  job.loop.until([&] { return job.loop.logged("host=n2"); });
  message::Follow said = call_of(Term{2}, 1);
  said.to_endpoint.reset();
  said.voter = job.options.self;
  const PeerAnswer answer = call(job.loop, job.port, said);
  REQUIRE(answer.said);
  // The term that its nodes remember: its own would depose the leader that it yields to.
  CHECK(std::get<message::Moved>(*answer.said).term == Term{1});
  job.loop.until([&] { return deposed == 1; });
}

TEST_CASE("Who yields to a leader that is gone gathers again") {
  Loop loop;
  const Endpoint a{"127.0.0.1", test::free_port()};
  OneNode node(loop, {a}, 0, 500ms, 500ms);
  loop.until([&] { return node.leads(); });
  (void)call(loop, a.port, call_of(Term{5}, test::free_port()));
  loop.until([&] { return node.lost; });
  loop.until([&] { return node.leads(); });
  CHECK(loop.logged("this node is no coordinator any more"));
  OneNode second(loop, {a}, 1, 500ms, 500ms);
  loop.until([&] { return node.is_in_world_of(2) && second.is_in_world_of(2); });
  CHECK_FALSE(node.failure);
}
