// Simulator: the real Membership and model agents in one queue of (time, sequence, action). One
// seed is one story: the same in every run. Connections deliver in order, as TCP does, each
// message after a random delay; attempts to reconnect, faults and their times come from the seed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.h"
#include "tests/sim/invariants.h"
#include "tests/sim/model_agent.h"

namespace ddprun::sim {

using namespace std::chrono_literals;  // allowed: literals alone, within tests
using Duration = std::chrono::nanoseconds;

/// Rates are per agent and simulated second, until `faults_until`.
struct SimOptions {
  std::uint64_t seed = 0;
  int min_nodes = 1;
  int max_nodes = 4;
  int agents = 5;
  int workers_max = 4;
  int max_restarts = 3;
  Duration join_within = 20s;  ///< agents start at random within this time
  Duration training = 30s;     ///< of an undisturbed attempt, at most
  Duration delay_max = 5ms;    ///< of one message
  Duration stop_max = 300ms;   ///< for workers to be gone
  Duration join_timeout = 60s;
  Duration last_call = 3s;
  Duration faults_until = 60s;
  double worker_failures = 0.02;
  double deaths = 0.01;
  double cuts = 0.005;
  double vanishings = 0.005;  ///< dead at once, noticed only by silence
  double signals = 0.0005;
  double return_chance = 0.8;  ///< that a node which was lost comes back
  bool ranked = false;         ///< every node but the first has a --node-rank
  /// Worlds are made known to standbys and to a quorum before they are handed out; the first agent,
  /// which hosts the coordinator, has no faults then.
  bool succession = false;
};

/// Options drawn from a seed: small jobs of every shape.
SimOptions draw(std::uint64_t seed);

class Simulator {
 public:
  explicit Simulator(SimOptions options, bool trace = false);
  ~Simulator();

  /// Runs to the end of the job, or to the time by which it must have ended.
  void run();
  /// What went wrong; empty when nothing did.
  [[nodiscard]] std::string violation() const;
  [[nodiscard]] const std::optional<JobSummary>& summary() const { return invariants_.summary(); }
  [[nodiscard]] const std::string& trace() const { return trace_; }
  [[nodiscard]] std::size_t events() const { return events_; }
  /// Nodes that came with the rank of another.
  [[nodiscard]] std::size_t contests() const { return contests_; }

  // For model agents.

  [[nodiscard]] Duration now() const { return now_; }
  void at(Duration time, std::function<void()> action);
  /// A random duration up to `max`.
  Duration up_to(Duration max);
  bool chance(double probability);
  /// A new connection, and its hello on the way.
  NodeId connect(std::uint64_t agent, NodeDescription description);
  /// For one life of an agent; the first agent's is always the same.
  ElectorId new_elector(std::uint64_t agent);
  /// Delivered to the coordinator after all that this connection sent before.
  void deliver(NodeId connection, Event event);
  /// The coordinator learns at `time` that the connection is gone.
  void disconnect(NodeId connection, Duration time, Duration silent_for);
  Invariants& truth() { return invariants_; }
  [[nodiscard]] const SimOptions& options() const { return options_; }
  [[nodiscard]] bool faulty() const { return now_ < options_.faults_until; }

 private:
  struct Action {
    Duration time;
    std::uint64_t sequence;
    std::function<void()> run;
    bool operator>(const Action& other) const {
      return std::tie(time, sequence) > std::tie(other.time, other.sequence);
    }
  };
  struct Link {
    std::uint64_t agent = 0;
    Duration up{};    ///< when the last message to the coordinator arrives
    Duration down{};  ///< when the last order arrives at the agent
    bool gone = false;
  };

  void feed(const Event& event);
  void send_order(const Command& command);
  void arm();
  void fault_tick();
  void log(const std::string& line);

  SimOptions options_;
  std::mt19937_64 random_;
  Duration now_{};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Action, std::vector<Action>, std::greater<>> queue_;
  Membership membership_;
  Invariants invariants_;
  std::vector<std::unique_ptr<ModelAgent>> agents_;
  std::vector<Link> links_;  ///< by NodeId - 1
  std::optional<Duration> armed_;
  std::size_t events_ = 0;
  std::size_t contests_ = 0;
  std::uint64_t electors_ = 1;
  bool tracing_;
  std::string trace_;
  std::string stuck_;
};

}  // namespace ddprun::sim
