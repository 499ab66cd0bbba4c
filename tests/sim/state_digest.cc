#include "tests/sim/state_digest.h"

namespace ddprun::sim {
namespace {

std::int64_t count_of(const std::optional<Instant>& at) {
  return at ? at->count() : -1;
}

void add(Digest& digest, const Configuration& configuration) {
  digest.add(number(configuration.number));
  for (const VoterId voter : configuration.voters) {
    digest.add(number(voter));
  }
}

void add(Digest& digest, const ReplicatedState& state) {
  digest.add(number(state.term)).add(number(state.since)).add(number(state.attempt));
  digest.add(number(state.coordinator)).add(number(state.settled)).add(state.ends);
  for (const Configuration* one : state.configurations()) {
    add(digest, *one);
  }
}

void add(Digest& digest, const Leadership& leadership) {
  add(digest, leadership.in_use());
  digest.add(leadership.planning()).add(number(leadership.planned_term()));
  if (leadership.planning()) {
    add(digest, leadership.planned());
  }
  digest.add(number(leadership.next_attempt())).add(number(leadership.stands_for()));
  digest.add(leadership.quorum_follows()).add(leadership.past_is_here());
  for (const VoterId dead : leadership.here().dead()) {
    digest.add(number(dead));
  }
}

void add(Digest& digest, const Leader& leader) {
  const Membership& membership = leader.membership();
  digest.add(static_cast<int>(membership.state())).add(membership.nodes());
  digest.add(membership.attempt() ? 1 + number(*membership.attempt()) : 0);
  digest.add(membership.restarts_used()).add(membership.all_started());
  add(digest, membership.leadership());
  for (const NodeId node : leader.members()) {
    digest.add(number(node)).add(membership.leadership().is_free(node));
  }
}

void add(Digest& digest, const Node& node) {
  digest.add(static_cast<int>(node.state())).add(number(node.known().term()));
  const Promise& promise = node.known().voter().promise();
  digest.add(number(promise.term)).add(number(promise.to)).add(number(promise.configuration));
  for (const VoterId granted : promise.granted) {
    digest.add(number(granted));
  }
  if (const auto& election = node.election()) {
    digest.add(static_cast<int>(election->state())).add(number(election->request().term));
    for (const VoterId voter : election->voters()) {
      digest.add(election->granted_by(voter));
    }
  }
}

void add(Digest& digest, const LeaderSearch& search) {
  digest.add(static_cast<int>(search.state())).add(search.turn()).add(search.asks_elsewhere());
}

}  // namespace

void add_decisions(Digest& digest, AgentShell& agent) {
  add(digest, agent.node());
  digest.add(agent.leads());
  if (const LeaderSearch* search = agent.search()) {
    add(digest, *search);
  }
  if (const Leader* leader = agent.leader()) {
    add(digest, *leader);
  }
  const auto& world = agent.workers().world();
  digest.add(agent.workers().live()).add(world ? 1 + number(world->attempt) : 0);
}

void add_deadlines(Digest& digest, const AgentShell& agent) {
  digest.add(count_of(agent.node().next_deadline()));
  if (const auto& lease = agent.lease()) {
    digest.add(count_of(lease->due())).add(lease->newest_stamp().count());
    digest.add(lease->silent_for(Instant(0)).count());
  }
  if (const Leader* leader = agent.leader()) {
    digest.add(count_of(leader->next_deadline()));
  }
}

}  // namespace ddprun::sim
