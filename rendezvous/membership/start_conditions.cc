#include "rendezvous/membership/start_conditions.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Hardly more than the way to a node and back, so that one late node costs nothing to speak of.
constexpr Instant kPlanPauseMin = std::chrono::milliseconds(5);
constexpr Instant kPlanPauseMax = std::chrono::milliseconds(640);
/// A plan that comes as the join timeout ends has so long to be stored. Voters need the way to a
/// node and back; a consensus service may be away for a while, or refuse it for ever.
constexpr Instant kCommitPatience = std::chrono::seconds(10);

GatheringRules gathering_rules(const MembershipOptions& options) {
  DDP_CHECK(options.min_nodes >= 1, "a job has at least one node");
  return {static_cast<std::size_t>(options.min_nodes), static_cast<std::size_t>(options.max_nodes),
          options.join_timeout, options.last_call_timeout};
}

OldWorldFence fence_of(const MembershipOptions& options, Instant now) {
  return {now, options.heartbeat_timeout,
          options.inheritance ? std::optional<Instant>(now + options.inheritance->leases_end_in)
                              : std::nullopt};
}

}  // namespace

StartConditions::StartConditions(const MembershipOptions& options, Instant now)
    : gathering_(gathering_rules(options)),
      fence_(fence_of(options, now)),
      heartbeat_timeout_(options.heartbeat_timeout) {
  if (options.inheritance) {
    expect(static_cast<std::size_t>(options.inheritance->expected),
           now + options.inheritance->patience);
    DDP_CHECK(options.inheritance->expected >= 1, "a successor itself is alive");
    if (options.inheritance->leader_may_live) {
      let_go(options.inheritance->known.coordinator, now + options.heartbeat_timeout);
    }
  }
}

void StartConditions::expect(std::size_t nodes, Instant until) {
  expected_ = nodes;
  expects_until_ = until;
}

void StartConditions::expect_back(std::size_t here, Instant now) {
  std::size_t away = 0;
  if (now >= expects_until_) {
    expected_ = 0;  // whom an earlier wait was for
  }
  for (const auto& [agent, back_by] : away_) {
    if (back_by > now) {
      ++away;
      expects_until_ = std::max(expects_until_, back_by);
    }
  }
  if (away > 0) {
    expected_ = std::max(expected_, here + away);
    DDP_CHECK(expects_until_ > now, "who may still come is waited for");
  }
  DDP_CHECK(away <= away_.size(), "those that may still come are some of all");
}

/// Whoever can send a hello can send the next one as it is given up. So the time runs on from one
/// to the next. It begins anew once a word was kept, or after as long a time without a wait.
void StartConditions::await_word_of(NodeId node, Instant now) {
  if (now >= quiet_since_) {
    words_by_ = now + heartbeat_timeout_;
    quiet_since_ = words_by_ + heartbeat_timeout_;
  }
  awaited_.insert(node);
  DDP_CHECK(words_by_ <= now + heartbeat_timeout_, "nobody is waited for longer than that");
}

void StartConditions::kept_word(NodeId node, Instant now) {
  if (awaited_.erase(node) > 0) {
    words_by_ = now + heartbeat_timeout_;  // the others may keep theirs, too
    quiet_since_ = awaited_.empty() ? now : words_by_ + heartbeat_timeout_;
  }
}

void StartConditions::handed_out() {
  fence_.handed_out();
  away_.clear();
}

/// Each wait has its own pauses: what upset the plans of the one before says nothing of this one.
void StartConditions::begin(Instant now, bool first, std::chrono::nanoseconds waited) {
  plan_pause_ = {};
  gathering_.begin(now, first, waited);
}

/// A burst of joins so causes one new proposal, not one each: every proposal costs a round to all
/// voters.
void StartConditions::put_off_plan(Instant now) {
  plan_pause_ = std::clamp(2 * plan_pause_, kPlanPauseMin, kPlanPauseMax);
  not_before_ = std::max(not_before_, now + plan_pause_);
  DDP_CHECK(is_paused(now), "a plan that was upset is followed by a pause");
}

/// In this order: what ends the job, what is over soon, what people have to be told of.
StartConditions::Decision StartConditions::decide(Instant now, std::size_t nodes,
                                                  std::size_t workers, std::size_t refused,
                                                  const Leadership& leadership) {
  DDP_CHECK(workers <= nodes, "those that run workers are among the nodes");
  const Gathering::Decision enough = gathering_.decide(now, workers, refused);
  held_back_ = enough == Gathering::Decision::start;
  if (!held_back_) {
    return enough == Gathering::Decision::give_up ? Decision::give_up : Decision::wait;
  }
  const bool is_refused = leadership.planning() && now >= plan_given_up_at_;
  if ((!leadership.quorum_follows() || is_refused) && now >= gathering_.join_deadline()) {
    return Decision::no_quorum;
  }
  const bool waits_for_nodes = awaits_word(now) || waits_for_followers(now, nodes);
  if (waits_for_nodes || leadership.planning() || is_paused(now)) {
    return Decision::hold_back;
  }
  if (waits_for_old_world(now, leadership)) {
    return std::exchange(fence_told_, true) ? Decision::hold_back : Decision::tell_old_world;
  }
  plan_given_up_at_ = now + kCommitPatience;
  return Decision::start;
}

/// A world without them would only be stopped again for them.
bool StartConditions::waits_for_followers(Instant now, std::size_t nodes) const {
  return now < expects_until_ && nodes < expected_;
}

/// Where all nodes that may run workers of another's world are here, its leases bind nobody: an
/// agent without a coordinator ends its workers before it looks for one.
bool StartConditions::waits_for_old_world(Instant now, const Leadership& leadership) const {
  return now < fence_.over_at() && !(fence_.is_of_another() && leadership.past_is_here());
}

/// Too early costs one look; too late, a job that stands. So every condition that ends by time has
/// its place here.
Instant StartConditions::next_deadline(Instant now, bool gathers, std::size_t nodes,
                                       const Leadership& leadership) const {
  if (gathers && !held_back_) {
    return gathering_.next_deadline();
  }
  // The deadlines of the gathering are over or do not apply; each of the others may be next.
  Instant due = gathering_.next_report();
  if (is_paused(now)) {
    due = std::min(due, not_before_);
  }
  if (!leadership.quorum_follows()) {
    due = std::min(due, gathering_.join_deadline());
  } else if (gathers && leadership.planning()) {
    due = std::min(due, std::max(gathering_.join_deadline(), plan_given_up_at_));
  }
  if (waits_for_old_world(now, leadership)) {
    due = std::min(due, fence_.over_at());
  }
  if (awaits_word(now)) {
    due = std::min(due, words_by_);
  }
  return waits_for_followers(now, nodes) ? std::min(due, expects_until_) : due;
}

}  // namespace ddprun
