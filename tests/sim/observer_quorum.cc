// Observer: whether those who are here may decide, as it sees them.
#include <algorithm>

#include "tests/sim/observer.h"

namespace ddprun::sim {

/// One that begins anew goes by the newest copy that a voter brings.
void Observer::adopt(Watched& one, const NodeDescription& node) const {
  if (node.past && !one.announced.contains(node.past->configuration)) {
    one.past = true;
  }
  if (!node.copy || one.announced.contains(node.copy->replicated.configuration.number)) {
    return;
  }
  const ReplicatedState& state = node.copy->replicated;
  const std::pair told{state.configuration.number, state.attempt};
  if (!one.known_history || told > *one.known_history) {
    one.known_history = told;
    one.restarts_used = node.copy->so_far.restarts_used;
  }
  if (state.configuration.number > one.newest.number) {
    one.newest = state.configuration;
    one.before = state.before;
    one.knows = LogPosition{state.configuration.number, {}, {}};
    one.old_leader = state.coordinator;
    one.leader_is_gone = false;
    one.ends = state.ends;
  }
  if (state.configuration.number == one.newest.number) {
    one.leader_is_gone = one.leader_is_gone || node.copy->at_endpoint || node.copy->saw_close;
  }
}

/// Whom it voted for is not here, and may lead.
bool Observer::is_bound(const Watched& one, const KnownNode& node) {
  return std::any_of(node.granted.begin(), node.granted.end(),
                     [&](VoterId granted) { return !one.known.is_here(granted); });
}

/// A majority of those that decide is here, or what is not is none: the coordinator before is gone.
bool Observer::knows_enough(const Watched& one) const {
  if (!one.begins || one.attempt || !one.past) {
    return true;
  }
  std::vector<Configuration> decide = one.before;
  decide.push_back(one.newest);
  return !one.newest.voters.empty() &&
         std::all_of(decide.begin(), decide.end(), [&](const Configuration& configuration) {
           std::size_t free = 0;
           std::size_t both = 0;
           for (const VoterId voter : configuration.voters) {
             const auto any = [&](bool bound) {
               return one.known.any_of(voter, [&](const KnownNode& node) {
                 return !node.beyond && is_bound(one, node) == bound;
               });
             };
             const std::size_t is_free = any(false) ? 1 : 0;
             free += is_free;
             both += is_free + (any(true) ? 1 : 0);
           }
           const bool led = holds(configuration, one.old_leader);
           const std::size_t gone = led && one.leader_is_gone ? 1 : 0;
           // One that stepped down, and follows now, leaves nobody who could go on with half.
           const bool follows = led && one.known.any_of(one.old_leader, [&](const KnownNode& node) {
             return !node.beyond && !is_bound(one, node);
           });
           const std::size_t all = configuration.voters.size();
           return both > 0 && (2 * both > all || ((gone > 0 || follows) && 2 * free >= all) ||
                               (gone > 0 && both + gone >= all));
         });
}

/// One that others came after may have to wait for those who know of them.
bool Observer::decides_now(const Watched& one) const {
  return one.term >= configuration_term_ && has_quorum(one, one.configuration) &&
         (one.begins || inherited_agree(one)) && knows_enough(one);
}

bool Observer::inherited_agree(const Watched& one) const {
  return has_quorum(one, one.newest) &&
         std::all_of(one.before.begin(), one.before.end(), [&](const Configuration& configuration) {
           return has_quorum(one, configuration);
         });
}

/// Of what it was told: who is here, and who is dead; and of those who count for it for sure. Half
/// of them are enough only where nobody of them may have voted for another.
bool Observer::has_quorum(const Watched& one, const Configuration& configuration,
                          bool of_any_kind) const {
  if (!sim_.failover || configuration.voters.empty()) {
    return true;
  }
  std::size_t free = 0;
  std::size_t all = 0;
  bool own = false;
  for (const VoterId id : configuration.voters) {
    const bool bound = !of_any_kind && one.known.any_of(id, [&](const KnownNode& node) {
      return !node.beyond && is_bound(one, node);
    });
    const bool here = !bound && one.known.any_of(id, [&](const KnownNode& node) {
      return of_any_kind || !node.beyond;
    });
    // The coordinator that was at the endpoint before one that begins anew is no more.
    const bool before = of_any_kind && began_anew_ && gone_.contains(id);
    const bool ours = one.dead.contains(id) || before || here;
    free += ours ? 1 : 0;
    all += ours || bound ? 1 : 0;
    own = own || id == one.self || before;
  }
  return (own && 2 * free >= configuration.voters.size()) || 2 * all > configuration.voters.size();
}

}  // namespace ddprun::sim
