// Membership: the end of an incident: what it costs, what follows, and who is told of it.
#include <algorithm>
#include <utility>

#include "rendezvous/membership/incident_line.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

/// Whether a restart is spent is decided here and not at the first report, for only now it is
/// known whether the workers that failed were victims of a lost node.
void Membership::close_incident() {
  const bool by_worker = incident_->spends_restart();
  const IncidentInstants when{incident_->happened_at(), incident_->detected_at(), now_};
  Incident closed = incident_->build();
  incident_.reset();
  if (!ending_) {
    RestartPolicy::Decision decision = policy_.decide(closed, by_worker, story_, now_);
    closed.spent_restart = decision.spent;
    not_before_ = now_ + decision.pause;
    tell_incident(closed, decision);
    if (decision.end) {
      ending_ = Ending{Verdict::failed, closed.reason + "; " + *decision.end, 0};
    }
  }
  record_.ended(std::move(closed), when);
}

/// People at two nodes read it, at once: at the one where it happened and at the coordinator's. Of
/// a lost coordinator each node has told by itself, and growth is no failure.
void Membership::tell_incident(const Incident& closed, const RestartPolicy::Decision& decision) {
  if (closed.kind != IncidentKind::worker_failed && closed.kind != IncidentKind::node_lost) {
    return;
  }
  Aftermath after;
  after.end = decision.end;
  after.next = leadership_.next_attempt();
  after.max_restarts = policy_.budget().max();
  if (decision.spent) {
    after.restart = policy_.budget().used();
  }
  after.pause = decision.pause;
  after.missing = std::max(options_.min_nodes - static_cast<int>(workers_here()), 0);
  after.epoch = record_.ledger().saved().epoch;
  const FailureRecord* cause =
      !closed.records.empty() && closed.records.front().blame == Blame::cause
          ? &closed.records.front()
          : nullptr;
  TellIncident told;
  for (const auto& [id, node] : nodes_) {
    const bool of_cause = cause != nullptr && node.last_group_rank == cause->group_rank &&
                          node.host_name == cause->node;
    if (of_cause || node.hosts_coordinator) {
      told.nodes.push_back(id);
    }
  }
  told.text = incident_line(closed, after);
  commands_.push_back(std::move(told));
}

}  // namespace ddprun
