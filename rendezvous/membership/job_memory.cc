#include "rendezvous/membership/job_memory.h"

#include <algorithm>

namespace ddprun {

void JobMemory::announced(Term term, AttemptNumber attempt, RosterNumber roster, int electors,
                          bool at_endpoint) {
  newest_electors_ = electors;
  if (!past_ || !past_->group_rank) {  // what was in use says more than what may have been
    past_ = Past{term, attempt, roster, electors, {}, at_endpoint};
  }
}

void JobMemory::assigned(Term term, AttemptNumber attempt, RosterNumber roster, int group_rank,
                         bool at_endpoint) {
  past_ = Past{term, attempt, roster, newest_electors_, group_rank, at_endpoint};
}

void JobMemory::heard_of(AttemptNumber attempt) {
  if (past_) {
    past_->attempt = std::max(past_->attempt, attempt);
  }
}

}  // namespace ddprun
