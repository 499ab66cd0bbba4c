#include "rendezvous/control/follower_quorum.h"

#include <vector>

namespace ddprun {

bool FollowerQuorum::needed() const {
  const JobState state = membership_.state();
  return (state == JobState::running || state == JobState::stopping) &&
         !membership_.leadership().needs_nobody();
}

bool FollowerQuorum::needed_later() const {
  return membership_.leadership().in_use().configuration.voters.size() > 2;
}

Instant FollowerQuorum::contact(Instant now) const {
  std::vector<FollowerContact> followers;
  for (const auto& [id, one] : sessions_) {
    if (one.stage == AgentSession::Stage::member && membership_.leadership().is_free(id)) {
      followers.push_back({one.voter, one.local ? now : one.fresh, one.local});
    }
  }
  for (const VoterId dead : membership_.leadership().dead()) {
    followers.push_back({dead, now, false});  // it will never follow another
  }
  return quorum_contact(membership_.leadership().in_use().configuration, followers);
}

bool FollowerQuorum::outdated() const {
  return membership_.leadership().outdated();
}

}  // namespace ddprun
