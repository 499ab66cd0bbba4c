// The part of JobCourse that says in which state the job is, and what nodes that come and go mean
// for it.
#include "rendezvous/membership/job_course.h"

#include <fmt/core.h>

#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/world_notice.h"

namespace ddprun {
namespace {

/// What a coordinator knows before any node has come.
ReplicatedState known_state(const MembershipOptions& options) {
  if (options.inheritance) {
    return options.inheritance->known;
  }
  ReplicatedState nothing;
  nothing.instance = options.instance;
  return nothing;
}

/// None where the coordinator's node is not here yet.
std::vector<NodeId> coordinators_node(const JobNodes& nodes) {
  std::vector<NodeId> found;
  for (const auto& [id, node] : nodes.all()) {
    if (node.hosts_coordinator) {
      found.push_back(id);
    }
  }
  return found;
}

AttemptNumber first_attempt(const MembershipOptions& options) {
  return options.inheritance ? options.inheritance->first_attempt : AttemptNumber{};
}

/// Beside the attempt that runs.
bool votes_beside(const Leadership& leadership, const JobNode& idle) {
  return leadership.enabled() &&
         (idle.witness || holds(leadership.in_use().configuration, idle.voter));
}

/// The same, or as a spare where few others vote.
bool may_vote(const Leadership& leadership, const JobNode& idle) {
  const bool by_service = leadership.here().is_here(kServiceVoter);
  const bool is_few = leadership.in_use().configuration.voters.size() < kVotersWanted;
  return votes_beside(leadership, idle) || (leadership.enabled() && is_few && !by_service);
}

TellIncident lost_voter(const JobNodes& nodes, const JobNode& lost, const std::string& why) {
  return {coordinators_node(nodes),
          fmt::format("the {} {} was lost ({}): it does not vote until it is back",
                      lost.witness ? "witness" : "spare", lost.host_name, why)};
}

}  // namespace

JobCourse::JobCourse(const Parts& parts, Instant now)
    : options_(parts.options),
      nodes_(parts.nodes),
      absent_(parts.absent),
      environment_check_(parts.environment_check),
      accounts_(parts.accounts),
      attempt_(parts.attempt),
      commands_(parts.commands),
      leadership_(options_.term, options_.self, known_state(options_), first_attempt(options_),
                  options_.voters_max),
      inheritance_(options_.self, accounts_),
      start_(options_, now),
      now_(now) {
  const bool is_new = !options_.inheritance;
  if (is_new) {
    accounts_.history().begin(now);
  } else {
    ending_ = inheritance_.take_over(*parts.options.inheritance, now);
    rest_ = ending_ ? Rest::ending : Rest::gathering;
  }
  // Those who waited under the coordinator before need time to come to this one.
  const auto waited_max =
      std::max(options_.join_timeout - 2 * options_.heartbeat_timeout, std::chrono::nanoseconds{});
  start_.begin(now, is_new, std::min(options_.waited, waited_max));
}

void JobCourse::set_time(Instant now) {
  DDP_CHECK(now >= now_, "time does not go back");
  now_ = now;
}

/// An attempt that lives has a state of its own; without one the job waits, or is over.
JobState JobCourse::state() const {
  if (attempt_.lives()) {
    DDP_CHECK(rest_ == Rest::gathering, "no attempt lives once the end is decided");
    return attempt_.runs() ? JobState::running : JobState::stopping;
  }
  switch (rest_) {
    case Rest::gathering:
      return JobState::gathering;
    case Rest::ending:
      return JobState::ending;
    case Rest::over:
      break;
  }
  return JobState::over;
}

/// While an attempt lives its events lead on, and each silent node is lost after a while: nothing
/// here waits for time.
std::optional<Instant> JobCourse::next_deadline() const {
  const JobState state = this->state();
  if (state != JobState::gathering && state != JobState::ending) {
    return std::nullopt;
  }
  return start_.next_deadline(now_, state == JobState::gathering, nodes_.size(), leadership_);
}

// --- Nodes ----------------------------------------------------------------------------------

/// The leadership first: a node may bring a state that this coordinator adopts, and everything
/// after goes by that.
void JobCourse::joined(NodeId id, const NodeDescription& description) {
  leadership_.joined(id, description.voter, description.promise, description.past,
                     description.copy);
  start_.fence().came(description.voter);
  start_.came(description.voter);
  start_.kept_word(id, now_);
  if (const auto& past = description.past) {
    start_.fence().told(*past, now_ - ago(description, past->contact_at));
  }
  // Only before its first world: once it has handed one out, its own accounts are the newest.
  if (state() == JobState::gathering && !attempt_.number() && !options_.inheritance) {
    inheritance_.remember(description, now_);
  }
  if (auto notice = world_notice({id}, leadership_, options_.self, attempt_.number())) {
    commands_.push_back(std::move(*notice));
  }
}

/// What it is about to say may show that others run this job, or have to be asked.
void JobCourse::on(const NodeGreeted& event) {
  if (event.gone) {
    start_.no_longer_await(event.node);
  } else {
    start_.await_word_of(event.node, now_);
  }
  if (state() != JobState::gathering) {
    return;
  }
  DDP_CHECK(!attempt_.lives(), "nothing runs while nodes are gathered");
  if (start_.awaits_word(now_) && leadership_.planning()) {
    leadership_.drop_plan();
    start_.put_off_plan(now_);
  }
  try_start();
}

/// Called once its welcome is on the way: an agent expects that before any other order.
void JobCourse::take_in(NodeId id, bool upset) {
  switch (state()) {
    case JobState::gathering:
      start_.changed(now_);
      if (upset) {
        start_.put_off_plan(now_);
      }
      try_start();
      break;
    case JobState::running:
      joined_while_running(id);
      catch_up(id);
      break;
    case JobState::stopping:  // it is taken in with the next attempt
      catch_up(id);
      break;
    case JobState::ending:
      if (upset) {
        start_.put_off_plan(now_);
      }
      try_end();
      break;
    case JobState::over:
      DDP_CHECK(false, "a job that is over lets nobody in");
  }
}

/// Growth spends nothing. Once a node has finished its workers, the others are about to: a restart
/// would do the work again, so the newcomer waits as a spare.
void JobCourse::joined_while_running(NodeId id) {
  JobNode& node = nodes_.at(id);
  const bool has_room = !node.witness && attempt_.world_nodes() < options_.max_nodes;
  if (has_room && !attempt_.any_finished() && options_.scale_up != ScaleUp::never) {
    attempt_.stop_to_grow(node, options_.scale_up == ScaleUp::now ? StopHow::now : StopHow::save,
                          now_);
    return;
  }
  if (may_vote(leadership_, node)) {
    plan();  // it votes from here on; the attempt goes on
  }
  if (node.witness) {
    return;
  }
  const std::string why = attempt_.any_finished() ? "its first nodes have finished"
                          : has_room              ? "--scale-up never keeps it as it is"
                                                  : "";
  commands_.push_back(
      spare_notice(id, options_, nodes_.workers_here(), attempt_.world_nodes(), why));
  node.knows_it_is_spare = true;
}

void JobCourse::left(const NodeLost& event) {
  plan_dropped_ = leadership_.planning();
  if (plan_dropped_) {
    start_.put_off_plan(now_);  // it counts on the node
  }
  leadership_.left(event.node, event.died);
  start_.changed(now_);
}

/// Its agent may still follow on a connection that is cut, and run its workers, until its lease is
/// over. One that has come back on another connection has ended them before.
void JobCourse::lost(const JobNode& node, const NodeLost& event, std::optional<NodeId> waiter) {
  const bool ran_workers = node.phase == NodePhase::working || node.phase == NodePhase::stopping;
  if (ran_workers && leadership_.here().connections_of(node.voter).empty()) {
    start_.fence().lost(node.voter, now_ + event.lease_left);
  }
  const bool ends = state() == JobState::ending;
  const bool comes_back =
      !event.died && leadership_.enabled() && (ends || node.phase != NodePhase::idle);
  if (comes_back && leadership_.here().connections_of(node.voter).empty()) {
    start_.let_go(node.voter, now_ + options_.heartbeat_timeout);
  }
  if (node.phase != NodePhase::idle) {
    attempt_.lost(node, event.why, now_ - event.silent_for, now_);
    attempt_changed();
  } else if (state() == JobState::gathering) {
    try_start();  // takes back a last call
  } else if (ends) {
    start_.expect_back(nodes_.size(), now_);
    try_end();
  } else if (state() == JobState::running && node.voter != kServiceVoter) {
    const bool voted = votes_beside(leadership_, node);
    if (voted && !node.released) {
      commands_.push_back(lost_voter(nodes_, node, event.why));
    }
    // A later loss of the coordinator is to find those that are left to be a majority. What was
    // planned with a spare that did not vote yet came to nothing.
    if (voted || plan_dropped_) {
      plan();
    }
  }
  const bool ran_on = node.phase == NodePhase::idle || node.phase == NodePhase::finished;
  // Where the loss let a new world begin at once, the one that waited may be in it already.
  const bool is_idle = waiter && nodes_.at(*waiter).phase == NodePhase::idle;
  if (is_idle && ran_on && state() == JobState::running) {
    joined_while_running(*waiter);
  }
}

/// One that its supervisor starts again counts once.
void JobCourse::will_not_come(HostAndAddress who, RefusedNode refused) {
  if (state() != JobState::gathering || !absent_.has_room()) {
    return;
  }
  const bool is_new = absent_.refuse_for_good(std::move(who), std::move(refused));
  const std::size_t settled = nodes_.workers_here() + absent_.refused_for_good();
  if (is_new && settled >= static_cast<std::size_t>(options_.max_nodes)) {
    commands_.push_back(waiting_notice(facts()));  // why nobody is waited for any more
  }
  try_start();
}

/// A voter that leaves a running attempt is released once a configuration without it is in use:
/// otherwise its vote would still be counted among those that are needed.
void JobCourse::idle_node_leaves(const JobNode& node) {
  if (state() == JobState::running && votes_beside(leadership_, node)) {
    plan();
    return;
  }
  release_leaving();
  if (state() == JobState::gathering) {
    start_.changed(now_);
    leadership_.drop_plan();  // of a world with this node
    try_start();
  }
}

/// Its agent prints what the job did until then, and exits; the job goes on without it.
void JobCourse::release_leaving() {
  for (const NodeId id : nodes_.release_idle()) {
    JobSummary left = *so_far();
    left.verdict = Verdict::left;
    left.reason = "it was asked to leave";
    commands_.push_back(Release{id, std::make_shared<JobSummary>(std::move(left))});
  }
}

// --- Other events ---------------------------------------------------------------------------

/// The store is opened before any node has its assignment, so no worker runs.
void JobCourse::on(const StoreFailed& event) {
  if (state() == JobState::running && attempt_.number() == event.attempt) {
    finish({Verdict::impossible, event.why, 0});
  }
}

/// The last acknowledgement that was missing lets the plan be used at once.
void JobCourse::on(const StateAcknowledged& event) {
  if (leadership_.acknowledged(event.node, event.configuration)) {
    committed();
  }
}

void JobCourse::on(const TimePassed& /*event*/) {
  if (state() == JobState::gathering) {
    try_start();
  } else if (state() == JobState::ending) {
    try_end();
  }
  // Either may have changed the state: what runs, or is over, has nothing to report.
  const bool waits = state() == JobState::gathering || state() == JobState::ending;
  if (waits && start_.report_due(now_)) {
    commands_.push_back(waiting_notice(facts()));
  }
}

WaitingFacts JobCourse::facts() const {
  return {options_,
          nodes_,
          absent_,
          start_,
          leadership_,
          now_,
          state() == JobState::ending,
          attempt_.number().has_value()};
}

void JobCourse::check_invariants() const {
  attempt_.check_invariants();
  switch (state()) {
    case JobState::gathering:
      DDP_CHECK(!ending_, "an end is dealt with before gathering");
      break;
    case JobState::running:
      DDP_CHECK(!ending_, "nobody stops a running attempt");
      DDP_CHECK(attempt_.world_nodes() >= options_.min_nodes, "a world has min nodes");
      DDP_CHECK(attempt_.world_nodes() <= options_.max_nodes, "a world has max nodes at most");
      break;
    case JobState::stopping:
      DDP_CHECK(attempt_.incident() || ending_, "an attempt is stopped for a reason");
      break;
    case JobState::ending:
    case JobState::over:
      DDP_CHECK(ending_.has_value(), "a job ends with a verdict");
      break;
  }
}

}  // namespace ddprun
