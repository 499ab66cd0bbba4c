#include "rendezvous/membership/membership.h"

#include <utility>
#include <variant>

#include "rendezvous/base/check.h"

namespace ddprun {

/// The parts are built in the order in which they refer to each other.
Membership::Membership(MembershipOptions options, Instant now)
    : options_(std::move(options)),
      terms_{options_.job_id,       options_.min_nodes,        options_.max_nodes,
             options_.max_restarts, options_.require_same_env, options_.at_endpoint,
             options_.by_witness},
      now_(now),
      absent_(options_.max_nodes),
      environment_check_(options_.require_same_env, options_.inheritance.has_value()),
      accounts_(options_),
      attempt_(nodes_, accounts_.history(), commands_),
      course_({options_, nodes_, absent_, environment_check_, accounts_, attempt_, commands_},
              now) {}

/// Commands are collected while the event goes through the parts. So they leave in the order in
/// which they were decided, and agents rely on that.
std::vector<Command> Membership::apply(Instant now, Event event) {
  DDP_CHECK(now >= now_, "time does not go back");
  DDP_CHECK(commands_.empty(), "commands are handed out once");
  now_ = now;
  course_.set_time(now);
  std::visit([this](auto& alternative) { on(std::move(alternative)); }, event);
  // Any event may complete the comparison, as a node that leaves was maybe the last to be asked.
  if (environment_check_.is_due()) {
    carry_out_environment_check();
  }
  if (course_.state() == JobState::over) {
    contenders_.clear();  // they are sent the summary as all others are
  }
  check_invariants();
  return std::exchange(commands_, {});
}

// --- Workers of the current attempt ---------------------------------------------------------

void Membership::on(const WorkersStarted& event) {
  if (attempt_.on(event, now_)) {
    course_.all_started();
  }
}

/// A failure begins the stop, which ends only with WorkersStopped of all members.
void Membership::on(WorkerFailed event) {
  attempt_.on(std::move(event), now_);
  DDP_CHECK(!attempt_.all_finished() && !attempt_.all_stopped(), "a failure ends no attempt");
}

void Membership::on(const WorkersFinished& event) {
  attempt_.on(event, now_);
  course_.attempt_changed();
}

void Membership::on(WorkersStopped event) {
  attempt_.on(std::move(event), now_);
  course_.attempt_changed();
}

void Membership::on(const WorkersHung& event) {
  attempt_.on(event, now_);
  course_.attempt_changed();
}

/// Without it a successor would take all of this attempt's work for lost.
void Membership::on(const WorkersProgress& event) {
  if (attempt_.on(event, now_)) {
    course_.progress_told();
  }
}

/// Constant time, after every event; the simulator checks what needs a walk over all nodes. What
/// few events change is checked where they do: the budget, those that wait for a rank.
void Membership::check_invariants() const {
  course_.check_invariants();
  DDP_CHECK(nodes_.ranks_given() <= nodes_.size(), "a node has one rank at most");
  DDP_CHECK(nodes_.workers_here() <= nodes_.size(), "those that run workers are nodes of the job");
}

}  // namespace ddprun
