#include "tests/sim/apart.h"

#include <utility>

#include "rendezvous/membership/event_text.h"
#include "tests/sim/agent_shell.h"
#include "tests/sim/cluster.h"

namespace ddprun::sim {
namespace {

/// The longest pause between a leader's calls (node/leader_announcing.cc), and what a search may
/// lose at a place that does not answer before it comes to the right one.
constexpr Duration kCallsMax = seconds(2);
constexpr Duration kConnectMax = seconds(3);
/// By a consensus service one of two may lead until its lease ends.
constexpr Duration kLeaseMax = seconds(16);

bool is_healthy(const Machine& machine) {
  return machine.runs() && !machine.agent()->is_over();
}

/// It is there for the job, and no part of a world that runs.
bool waits(Cluster& cluster, const AgentShell& agent) {
  if (const int leader = agent.leader_machine(); leader >= 0) {
    const AgentShell* leads = cluster.agent_of(leader);
    return leads != nullptr && leads->gathers();
  }
  return true;
}

bool are_connected(Cluster& cluster, int a, int b) {
  return cluster.network().passes(a, b) && cluster.network().passes(b, a);
}

/// A process that was in a world is known to the voters of the job. One that was not can only be
/// found by way of an endpoint where somebody answers: what knew it is dead, or is cut off.
bool can_meet(Cluster& cluster, int a, int b) {
  if (const Service* service = cluster.service()) {
    return service->serves(a) && service->serves(b);
  }
  if (cluster.machine(b).agent()->is_known_to_voters()) {
    return true;
  }
  for (int place = 0; place < cluster.options().places(); ++place) {
    if (is_healthy(cluster.machine(place)) && are_connected(cluster, place, a) &&
        are_connected(cluster, place, b)) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::string Apart::look(Cluster& cluster) {
  if (cluster.observer().is_over()) {
    return {};  // those who missed the end wait in vain, together or not (docs/failover.md)
  }
  const SimOptions& options = cluster.options();
  const Duration bound = options.heartbeat_timeout + kCallsMax + options.places() * kConnectMax +
                         (options.service ? kLeaseMax : Duration(0));
  std::map<Pair, Duration> since;
  for (int a = 0; a < options.machines(); ++a) {
    const Machine& leads = cluster.machine(a);
    if (!is_healthy(leads) || !leads.agent()->gathers()) {
      continue;
    }
    for (int b = 0; b < options.machines(); ++b) {
      const Machine& other = cluster.machine(b);
      const bool apart = a != b && is_healthy(other) && other.agent()->leader_machine() != a &&
                         waits(cluster, *other.agent()) && are_connected(cluster, a, b) &&
                         can_meet(cluster, a, b);
      if (!apart) {
        continue;
      }
      const Pair pair{{a, leads.life()}, {b, other.life()}};
      const auto known = since_.find(pair);
      const Duration began = known != since_.end() ? known->second : cluster.now();
      if (cluster.now() - began > bound) {
        return "n" + std::to_string(a) + " gathers nodes, and n" + std::to_string(b) +
               " is not among them since " + ddprun::to_text(began);
      }
      since.emplace(pair, began);
    }
  }
  since_ = std::move(since);
  return {};
}

}  // namespace ddprun::sim
