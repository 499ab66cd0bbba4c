#include "rendezvous/membership/last_known_state.h"

#include <algorithm>

namespace ddprun {

void LastKnownState::announced(Term term, AttemptNumber attempt, ConfigurationNumber configuration,
                               int voters, bool at_endpoint) {
  newest_voters_ = voters;
  if (!past_ || !past_->group_rank) {  // what was in use says more than what may have been
    past_ = Past{term, attempt, configuration, voters, {}, at_endpoint};
    of_leader_ = true;
  }
}

void LastKnownState::assigned(Term term, AttemptNumber attempt, ConfigurationNumber configuration,
                              int group_rank, bool at_endpoint) {
  past_ = Past{term, attempt, configuration, newest_voters_, group_rank, at_endpoint};
  of_leader_ = true;
}

void LastKnownState::heard_of(AttemptNumber attempt) {
  if (past_) {
    past_->attempt = std::max(past_->attempt, attempt);
  }
}

/// Of the records of an incident the cause is enough for the summary: a hello is small.
void LastKnownState::told(const ReplicatedState& state, const JobSummary& so_far, Instant now) {
  history_ = RememberedHistory{state.coordinator, state.term, state.attempt, so_far, now};
  for (Incident& incident : history_->so_far.incidents) {
    if (incident.records.size() > 1) {
      incident.records_dropped += static_cast<int>(incident.records.size()) - 1;
      incident.records.resize(1);
    }
  }
}

void LastKnownState::lost(Instant at, bool saw_close, std::chrono::milliseconds heartbeat_timeout) {
  if (past_ && of_leader_) {
    past_->contact_at = at;
    past_->saw_close = saw_close;
    past_->heartbeat_timeout = heartbeat_timeout;
  }
}

void LastKnownState::fill(NodeDescription& node) const {
  node.past = past_;
  node.history = history_;
}

}  // namespace ddprun
