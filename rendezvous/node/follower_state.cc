#include "rendezvous/node/follower_state.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/job_history.h"

namespace ddprun {
namespace {

/// An incident that ended an attempt before `newest`, and spent a restart. More is not known: of
/// what each happened, its coordinator alone was told.
void add_untold(JobSummary& so_far, std::uint32_t newest, int to_come) {
  ++so_far.attempts;
  ++so_far.restarts_used;
  if (so_far.incidents.size() >= kIncidentsMax) {
    ++so_far.incidents_dropped;
    return;
  }
  Incident untold;
  const auto left = static_cast<std::uint32_t>(to_come);
  untold.attempt = AttemptNumber{newest > left ? newest - left - 1 : 0};
  untold.next_attempt = AttemptNumber{number(untold.attempt) + 1};
  untold.reason = "a worker failed while the service that decides for the job did not answer";
  untold.spent_restart = true;
  untold.at = so_far.accounts.wall;
  so_far.incidents.push_back(std::move(untold));
}

}  // namespace

/// A term has at most one leader (Ongaro's dissertation, section 3.3), so a node that follows is
/// bound in that term as by a vote. A promise of a later term stays: the leader has to raise its
/// term above it before this node's acknowledgement counts.
void FollowerState::follows(const message::Accepted& accepted) {
  term_ = accepted.term;
  leader_ = accepted.coordinator;
  instance_ = accepted.instance;
  voter_.follow(term_, accepted.coordinator);
  DDP_CHECK(voter_.promise().term >= term_, "a voter's term never falls");
  memory_.follows(accepted.at_first_endpoint, accepted.host);
}

/// Where this agent's own coordinator was proves nothing to a later one at that endpoint: the agent
/// stops it before it joins another. The voter follows from here on, and not only once its
/// coordinator accepts it: a vote that it granted in between would count twice, for its candidate
/// and, by the hello to its own coordinator, for that one.
void FollowerState::leads(Term term, VoterId self) {
  term_ = term;
  leader_ = self;
  voter_.follow(term, self);
  memory_.leads();
}

void FollowerState::led_until(Instant now, SharedSummary so_far) {
  if (past() && so_far) {
    led_ = Led{past()->attempt, std::move(so_far), now};
  }
}

/// From here on this node may vote. A close arrives when it happens, so the coordinator was there
/// until now; after a silence only the newest contact is certain.
void FollowerState::lost(Instant now, Instant contact, bool saw_close,
                         std::chrono::milliseconds heartbeat_timeout) {
  voter_.lost(contact, saw_close);
  memory_.lost(saw_close ? now : contact, saw_close, heartbeat_timeout);
}

/// On a connection that the agent follows already: the coordinator counts it from here on. What
/// this node remembers may have raised the coordinator's term since it accepted the hello.
void FollowerState::told(const message::Accepted& order, Instant) {
  term_ = order.term;
  instance_ = order.instance;
  voter_.follow(order.term, order.coordinator);
}

/// Raft's append of an entry: from here on this voter refuses candidates whose log is older
/// (election restriction, section 3.6.1). Its memory holds it, not a disk: a restarted agent is a
/// new voter.
bool FollowerState::told(const message::VoterState& order, Instant now) {
  if (!voter_.keeps(order.replicated)) {
    return false;
  }
  DDP_CHECK(voter_.promise().configuration >= order.replicated.configuration.number,
            "a state is acknowledged once the voter is bound by it");
  DDP_CHECK(now >= stored_at_, "time never goes back");
  term_ = order.replicated.term;
  stored_ = order;
  stored_at_ = now;
  memory_.told(order.replicated, order.so_far, now);
  DDP_CHECK(past(), "a voter remembers its job");
  return true;
}

/// Keeps the copy as new as the job, so that a successor repeats no attempt number and continues
/// with the same budget: a voter that has it refuses a candidate that does not. Nobody acknowledges
/// it. Two numbers left out for each term cover what is lost.
void FollowerState::told(const message::Story& order, Instant now) {
  if (!stored_) {
    return;  // others vote by now
  }
  if (order.attempt > stored_->replicated.attempt) {
    voter_.in_use();  // it was proposed with the number of the attempt before
  }
  voter_.has_story_of(order.attempt);
  stored_->replicated.attempt = order.attempt;
  stored_->so_far = order.so_far;
  stored_at_ = now;
  memory_.story(order.attempt, order.so_far, now);
}

/// The state of a large job comes in several messages, and nodes join later. The list has a bound,
/// for it grows by what arrives.
void FollowerState::told(const message::MoreNodes& order, Instant) {
  if (stored_ && stored_->nodes.size() + order.nodes.size() <= kNodesMax) {
    stored_->nodes.insert(stored_->nodes.end(), order.nodes.begin(), order.nodes.end());
    DDP_CHECK(stored_->nodes.size() <= kNodesMax, "a voter lists no more nodes than a job has");
    memory_.more_nodes(order.nodes);
  }
}

/// A world was committed before a node is told of it, so its configuration is in use. That frees
/// the voter from the candidates that it voted for before: none of them can lead any more.
void FollowerState::world_runs(const Past& world) {
  if (!failover_) {
    return;
  }
  if (world.instance != instance()) {
    job_began_.reset();
    led_.reset();
    restarts_used_ = 0;
  }
  term_ = world.term;
  voter_.assigned(world.configuration, world.attempt, world.term);
  memory_.assigned(world);
  DDP_CHECK(past() && past()->attempt == world.attempt, "a node remembers the newest world");
  if (stored_ && stored_->replicated.configuration.number < world.configuration) {
    stored_.reset();  // others vote now
  }
}

void FollowerState::told(const message::Assigned& order, Instant now) {
  Past world{order.term, order.world.attempt, order.configuration, order.world.group_rank,
             order.others};
  world.instance = order.instance;
  world_runs(world);
  job_began_ = now - order.job_age;
  restarts_used_ = std::max(restarts_used_, order.world.restarts_used);
}

/// A coordinator that begins without any state must not take a spare for a node that knows of no
/// job, and start a second world with it. What this node knows of a world that it was part of says
/// more.
void FollowerState::told(const message::TellWorld& order, Instant) {
  if (past() && past()->instance == order.instance && past()->attempt >= order.attempt) {
    return;
  }
  Past world{order.term, order.attempt, order.configuration, std::nullopt, 0};
  world.instance = order.instance;
  world_runs(world);
}

std::optional<int> FollowerState::others_since(const ReplicatedState& state) const {
  const bool is_known =
      past() && past()->instance == state.instance && past()->attempt >= state.attempt;
  return is_known && past()->group_rank ? std::optional(past()->others) : std::nullopt;
}

/// A state that was kept elsewhere lacks what happened while that place could not be reached.
std::optional<std::chrono::nanoseconds> FollowerState::update(message::VoterState& state,
                                                              Instant now) const {
  ReplicatedState& kept = state.replicated;
  if (!past() || past()->instance != kept.instance) {
    return std::nullopt;
  }
  const bool led_last = led_ && std::pair(led_->attempt, led_->so_far->accounts.wall) >
                                    std::pair(kept.attempt, state.so_far.accounts.wall);
  kept.attempt = std::max(kept.attempt, past()->attempt);
  if (led_last) {
    state.so_far = *led_->so_far;
  }
  for (int to_come = restarts_used_ - state.so_far.restarts_used; to_come > 0; --to_come) {
    add_untold(state.so_far, number(kept.attempt), to_come - 1);
  }
  DDP_CHECK(state.so_far.restarts_used >= restarts_used_, "a restart that was used stays so");
  if (led_last) {
    return now - led_->at;
  }
  return job_began_ ? std::optional(std::max(now - *job_began_ - state.so_far.accounts.wall,
                                             std::chrono::nanoseconds()))
                    : std::nullopt;
}

JobInstance FollowerState::instance() const {
  return past() ? past()->instance : JobInstance{};
}

/// A voter may store the state of an instance that it was in no world of. A call of that job is for
/// it all the same.
bool FollowerState::follows_instance(JobInstance instance) const {
  return instance == instance_ || (stored_ && instance == stored_->replicated.instance);
}

void FollowerState::fill(NodeDescription& node) const {
  node.promise = voter_.promise();
  memory_.fill(node);
}

}  // namespace ddprun
