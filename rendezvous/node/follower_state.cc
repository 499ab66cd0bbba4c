#include "rendezvous/node/follower_state.h"

namespace ddprun {

void FollowerState::follows(const message::Accepted& accepted) {
  term_ = accepted.term;
  instance_ = accepted.instance;
  voter_.follow(term_, accepted.coordinator);
  memory_.follows(accepted.at_first_endpoint, accepted.host);
}

/// Of a coordinator in this agent, nobody at the endpoint knows more.
void FollowerState::leads(Term term) {
  term_ = term;
  memory_.leads();
}

/// A close is seen when it happens, so the coordinator was there until now.
void FollowerState::lost(Instant now, Instant contact, bool saw_close,
                         std::chrono::milliseconds heartbeat_timeout) {
  voter_.lost(contact, saw_close);
  memory_.lost(saw_close ? now : contact, saw_close, heartbeat_timeout);
}

void FollowerState::told(const message::Accepted& order, Instant) {
  term_ = order.term;
  voter_.follow(order.term, order.coordinator);
}

/// From here on no candidate that knows an older configuration is granted a vote.
bool FollowerState::told(const message::VoterState& order, Instant now) {
  if (!voter_.keeps(order.replicated)) {
    return false;
  }
  term_ = order.replicated.term;
  stored_ = order;
  stored_at_ = now;
  memory_.told(order.replicated, order.so_far, now);
  return true;
}

void FollowerState::told(const message::Story& order, Instant now) {
  if (!stored_) {
    return;  // others vote by now
  }
  if (order.attempt > stored_->replicated.attempt) {
    voter_.in_use();  // it was proposed with the number of the attempt before
  }
  stored_->replicated.attempt = order.attempt;
  stored_->so_far = order.so_far;
  stored_at_ = now;
  memory_.story(order.attempt, order.so_far, now);
}

void FollowerState::told(const message::MoreNodes& order, Instant) {
  if (stored_ && stored_->nodes.size() + order.nodes.size() <= kNodesMax) {
    stored_->nodes.insert(stored_->nodes.end(), order.nodes.begin(), order.nodes.end());
    memory_.more_nodes(order.nodes);
  }
}

void FollowerState::told(const message::Assigned& order, Instant) {
  if (!failover_) {
    return;
  }
  term_ = order.term;
  voter_.assigned(order.configuration, order.world.attempt, order.term);
  Past world{order.term, order.world.attempt, order.configuration, order.world.group_rank,
             order.others};
  world.instance = order.instance;
  memory_.assigned(world);
  if (stored_ && stored_->replicated.configuration.number < order.configuration) {
    stored_.reset();  // others vote now
  }
}

JobInstance FollowerState::instance() const {
  return past() ? past()->instance : JobInstance{};
}

bool FollowerState::follows_instance(JobInstance instance) const {
  return instance == instance_ || (stored_ && instance == stored_->replicated.instance);
}

void FollowerState::fill(NodeDescription& node) const {
  node.promise = voter_.promise();
  memory_.fill(node);
}

}  // namespace ddprun
