// SimOptions: the job and the cluster of one simulated story, and how often which fault strikes. A
// seed draws them all.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>

#include "rendezvous/membership/membership.h"
#include "tests/sim/random.h"

namespace ddprun::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// What the steps of a node take; at random up to these, or exactly these when `exact`.
struct Costs {
  Duration detect{0};                 ///< from a worker's end to its agent's knowledge
  Duration stop = milliseconds(290);  ///< for workers to be gone
  Duration spawn = milliseconds(20);
  Duration first_step{0};  ///< from the spawn on
  bool exact = false;
};

/// Faults a second of the whole job, until `faults_until`.
struct Rates {
  double worker_failures = 0.06;
  double deaths = 0.05;       ///< of an agent with its workers; its connections close
  double vanishings = 0.025;  ///< of a machine: nobody is told
  double cuts = 0.05;         ///< of a group, both ways or one way
  double flaps = 0.015;       ///< several short cuts of one node
  double agent_stops = 0.02;  ///< SIGSTOP of the agent; its workers run on
  double node_stops = 0.02;   ///< SIGSTOP of all its processes
  double suspensions = 0.02;  ///< of the machine: its steady clock stands, too
  double signals = 0.0025;
  double preemptions = 0.001;
  double leaves = 0.01;  ///< a node is asked to leave in order
  double clock_jumps = 0.03;
  double strangers = 0.01;  ///< nodes of another job
  double coordinator_deaths = 0.02;
  double coordinator_stops = 0.01;
  // Of a consensus service.
  double services_away = 0.02;
  double service_cuts = 0.03;  ///< of some machines from it
  double services_slow = 0.015;
  double service_losses = 0.03;     ///< of answers, some of them to what is done
  double service_erasures = 0.004;  ///< somebody removes the leader's key
};

/// Of a job of thousands of nodes.
inline constexpr int kEndpointsMax = 8;

struct SimOptions {
  std::uint64_t seed = 0;
  int min_nodes = 1;
  int max_nodes = 4;
  int agents = 5;     ///< machines that run workers; the first hosts the job's first coordinator
  int endpoints = 1;  ///< the first machines; a new job begins at the first
  /// An agent that starts at the first endpoint hosts it, also when the job began long ago, once
  /// it has asked at the others. Otherwise it looks for the job first, and every machine is an
  /// endpoint.
  bool fresh_coordinators = false;
  int witnesses = 0;    ///< machines besides, that only vote
  int workers_max = 4;  ///< of a node
  int max_restarts = 3;
  bool failover = true;                  ///< whether the job outlives its coordinator
  Duration join_within = seconds(20);    ///< agents start at random within this time
  Duration training = seconds(30);       ///< of an undisturbed attempt, at most
  Duration delay_max = milliseconds(5);  ///< of one message
  Costs costs;
  Duration heartbeat_timeout = seconds(3);
  /// Of machines whose agent was given another one.
  std::map<int, Duration> other_timeouts = {};
  bool heartbeats = true;
  double clock_drift = 0.01;  ///< rates of steady clocks are 1 - this .. 1 + this
  Duration join_timeout = seconds(60);
  Duration last_call = seconds(3);
  Duration faults_until = seconds(40);
  Rates rates;
  double fatal_ends = 0.1;     ///< stories whose coordinator dies while it tells the end
  double return_chance = 0.8;  ///< that a node which was lost comes back
  double victims = 0.5;        ///< that a failure or a loss makes workers of others fail, too
  bool ranked = false;         ///< every node but the first has a --node-rank
  /// Workers tell their steps, and save and leave when ordered; a --restart-window; --on rules.
  bool policy = false;
  ScaleUp scale_up = ScaleUp::at_snapshot;
  /// Reports also come twice, late (after their connection is gone, too) and in another order,
  /// which TCP never does: what Membership::apply promises to stand.
  bool scrambled = false;
  /// A consensus service decides who leads (tests/sim/service.h); no node votes.
  bool service = false;
  /// Each message is an action of its own, for an exploration to choose from.
  bool one_by_one = false;

  [[nodiscard]] int machines() const { return agents + witnesses; }
  /// Machines where an agent looks for a job that has begun.
  [[nodiscard]] int places() const {
    return fresh_coordinators ? endpoints : std::min(machines(), kEndpointsMax);
  }
  [[nodiscard]] Duration timeout_of(int machine) const {
    const auto other = other_timeouts.find(machine);
    return other != other_timeouts.end() ? other->second : heartbeat_timeout;
  }
};

/// The stories from this seed on have `fresh_coordinators`. New seeds are always lower.
inline constexpr std::uint64_t kFreshSeeds = std::uint64_t{1} << 63U;

/// All stories from this seed on, up to kFreshSeeds, have a service. New seeds are always lower.
inline constexpr std::uint64_t kServiceSeeds = std::uint64_t{1} << 62U;

/// Options drawn from a seed: mostly small jobs of every shape, some of hundreds of nodes, one in a
/// thousand of thousands.
SimOptions draw(std::uint64_t seed);

/// A job to which nothing happens but what somebody writes down: no fault, no drift, whole
/// milliseconds. It trains until somebody says that it finishes.
SimOptions scripted_job();

MembershipOptions membership_options(const SimOptions& options);

}  // namespace ddprun::sim
