#include "rendezvous/membership/old_job.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/quorum.h"

namespace ddprun {

/// A newer copy of the state names a later coordinator, and nothing is known of its end yet.
void OldJob::was_led_by(VoterId leader) {
  leader_ = leader;
  leader_is_gone_ = leader_died_ = false;
}

void OldJob::leader_is_gone(bool died) {
  leader_is_gone_ = true;
  leader_died_ = leader_died_ || died;
}

void OldJob::remembers(const Past& past) {
  if (past.saw_close) {
    died_in_ = std::max(died_in_, past.configuration);
  }
  if (!past.group_rank || past.attempt < attempt_) {
    return;
  }
  if (past.attempt > attempt_) {
    here_.clear();
    dead_.clear();
    configuration_ = {};
  }
  attempt_ = past.attempt;
  configuration_ = std::max(configuration_, past.configuration);
  others_ = past.others;
  DDP_CHECK(is_of_world(past), "who remembers the newest world is of it");
}

/// A process that is here again has not died.
void OldJob::came(VoterId voter) {
  ++here_[voter];
  dead_.erase(voter);
}

void OldJob::went(VoterId voter) {
  const auto found = here_.find(voter);
  DDP_CHECK(found != here_.end() && found->second > 0, "only what came can go");
  if (--found->second == 0) {
    here_.erase(found);
  }
}

/// A newer configuration may have been handed out to nodes that are not here. The coordinator
/// before may have gone on with other nodes, as long as the voters that are not here were enough
/// for that: its own and those that it knew to be dead, or that were with it. Else one that is here
/// would have had to acknowledge that. Its coordinator is none of the others, also where it is
/// here, as one that a consensus service lets lead again.
bool OldJob::is_here(const Configuration& configuration, std::size_t voters_here) const {
  const std::size_t voters = configuration.voters.size();
  DDP_CHECK(voters_here <= voters, "voters that are here are some of all");
  const bool went_on = !leader_died_ && keeps_quorum(voters - voters_here, voters, true);
  const std::size_t known = here_.size() - here_.count(leader_) + dead_.size();
  return leader_is_gone_ && configuration_ == configuration.number &&
         known >= static_cast<std::size_t>(others_) && !went_on;
}

/// A coordinator that is no more may have voted for a successor. Where half of the voters are here
/// without it the rest is no majority, and where all are, none of them leads. One that follows has
/// given up its right to go on with half: the other half elects nobody without it.
bool OldJob::rest_is_no_quorum(const Configuration& configuration, const VotersHere::Count& count,
                               bool leader_follows) const {
  const std::size_t all = configuration.voters.size();
  const bool half_is_free = 2 * (count.free + count.dead) >= all;
  const bool all_are_here = count.free + count.bound + count.dead + 1 >= all;
  return holds(configuration, leader_) &&
         (leader_is_gone_ ? half_is_free || all_are_here : leader_follows && half_is_free);
}

}  // namespace ddprun
