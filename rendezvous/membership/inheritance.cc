#include "rendezvous/membership/inheritance.h"

#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

JobEnding ending_of(const JobSummary& told) {
  return {told.verdict, told.reason, told.stop_signal};
}

}  // namespace

/// The loss of the coordinator before is an incident as the loss of any other node is, unless it
/// had decided the end of the job: then nothing is lost.
std::optional<JobEnding> Inheritance::take_over(TakeoverState& state, Instant now) {
  DDP_CHECK(!remembered_end_, "a successor takes over before anything else");
  const Instant lost_at = now - state.lost_for;
  std::optional<JobEnding> ending;
  if (state.known.ends) {
    ending = ending_of(state.so_far);
  }
  accounts_.resume(std::move(state.so_far), now - state.told_ago, lost_at);
  if (!ending) {
    accounts_.coordinator_lost(state.known.attempt, state.why, lost_at, now);
  }
  return ending;
}

/// What this coordinator has sent itself, before it handed out a world, is no news: its own
/// accounts are as new. Nodes come in any order, so each newer copy replaces all of the older one.
void Inheritance::remember(const NodeDescription& node, Instant now) {
  if (!node.copy || !node.past || node.copy->replicated.coordinator == self_) {
    return;
  }
  const ReplicatedState& told = node.copy->replicated;
  const JobSummary& so_far = node.copy->so_far;
  const CopyAge age(told.configuration.number, told.attempt, so_far.accounts.wall);
  if (age <= newest_) {
    return;
  }
  newest_ = age;
  const Instant lost_at = now - ago(node, node.past->contact_at);
  accounts_.resume(so_far, now - ago(node, node.copy->told_at), lost_at);
  remembered_end_.reset();
  if (told.ends) {
    remembered_end_ = ending_of(so_far);
  } else {
    accounts_.coordinator_lost(told.attempt, "an agent began anew at its endpoint", lost_at, now);
  }
}

/// Once: the job has this end from then on, and asking again must not end it twice.
std::optional<JobEnding> Inheritance::take_remembered_end() {
  return std::exchange(remembered_end_, std::nullopt);
}

}  // namespace ddprun
