#include "rendezvous/membership/last_known_state.h"

#include <algorithm>

namespace ddprun {

void LastKnownState::announced(Term term, AttemptNumber attempt, ConfigurationNumber configuration,
                               int voters, bool at_endpoint) {
  newest_voters_ = voters;
  if (!past_ || !past_->group_rank) {  // what was in use says more than what may have been
    past_ = Past{term, attempt, configuration, voters, {}, at_endpoint, false};
    of_leader_ = true;
  }
}

void LastKnownState::assigned(Term term, AttemptNumber attempt, ConfigurationNumber configuration,
                              int group_rank, bool at_endpoint) {
  past_ = Past{term, attempt, configuration, newest_voters_, group_rank, at_endpoint, false};
  of_leader_ = true;
}

void LastKnownState::lost(bool died) {
  if (past_ && of_leader_) {
    past_->leader_died = died;
  }
}

void LastKnownState::heard_of(AttemptNumber attempt) {
  if (past_) {
    past_->attempt = std::max(past_->attempt, attempt);
  }
}

}  // namespace ddprun
