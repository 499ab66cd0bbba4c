// Membership's way from gathering nodes to a world that is handed out.
#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/membership/rank_order.h"

namespace ddprun {
namespace {

/// Hardly more than the way to a node and back, so that one late node costs nothing to speak of.
constexpr Instant kPlanPauseMin = std::chrono::milliseconds(5);
constexpr Instant kPlanPauseMax = std::chrono::milliseconds(640);

}  // namespace

/// The loss of the coordinator before is an incident as the loss of any other node is, unless it
/// had decided the end of the job: then nothing is lost.
void Membership::take_over() {
  TakeoverState& inherited = *options_.inheritance;
  const Instant lost_at = now_ - inherited.lost_for;
  if (inherited.known.ends) {
    inherit_end(inherited.so_far);
  }
  resume(std::move(inherited.so_far), now_ - inherited.told_ago, lost_at);
  if (!ending_) {
    coordinator_lost(inherited.known.attempt, lost_at, inherited.why);
  }
  expects_until_ = now_ + inherited.patience;
  gathering_.begin(now_, false);
}

/// A coordinator that began without any state goes on with the history that a standby brings. Of
/// two the one that was told last counts. What this coordinator has told itself, before a world was
/// handed out, it knows.
void Membership::remember(const NodeDescription& node) {
  const bool begins = state_ == JobState::gathering && !attempt_ && !options_.inheritance;
  if (!begins || !node.copy || !node.past || node.copy->replicated.coordinator == options_.self) {
    return;
  }
  const ReplicatedState& told = node.copy->replicated;
  const JobSummary& so_far = node.copy->so_far;
  const std::tuple newest(told.configuration.number, told.attempt, so_far.accounts.wall);
  if (newest <= remembered_) {
    return;
  }
  remembered_ = newest;
  record_ = {};
  const Instant told_at = now_ - ago(node, node.copy->told_at);
  const Instant lost_at = now_ - ago(node, node.past->contact_at);
  resume(so_far, told_at, lost_at);
  remembered_end_.reset();
  if (told.ends) {
    remembered_end_ = so_far;
  } else {
    coordinator_lost(told.attempt, lost_at, "an agent began anew at its endpoint");
  }
}

void Membership::resume(JobSummary so_far, Instant told_at, Instant lost_at) {
  policy_.resume(so_far.restarts_used, so_far.restart_state, told_at);
  record_.inherit(std::move(so_far), std::min(told_at, lost_at));
}

void Membership::coordinator_lost(AttemptNumber attempt, Instant lost_at, const std::string& why) {
  IncidentBuilder lost(attempt, lost_at, 1);
  lost.coordinator_lost(why);
  record_.ended(lost.build(), {lost_at, now_, now_});  // all workers were gone before this began
}

/// Those that voted for this coordinator are on their way: a world without them would only be
/// stopped again for them.
bool Membership::waits_for_followers() const {
  return options_.inheritance && now_ < expects_until_ &&
         nodes_.size() < static_cast<std::size_t>(options_.inheritance->expected);
}

/// A node that is cut off may still run workers of the world before.
bool Membership::waits_for_old_world() const {
  return now_ < fence_.over_at() && !(fence_.is_of_another() && leadership_.past_is_here());
}

void Membership::gather() {
  state_ = JobState::gathering;
  leadership_.drop_plan();
  plan_pause_ = {};
  refused_.clear();  // of nodes that came while nobody was waited for
  gathering_.begin(now_, false);
  try_start();
  if (state_ == JobState::gathering && !held_back_) {
    release_leaving();  // it waits for others, maybe for long
  }
}

void Membership::try_start() {
  DDP_CHECK(state_ == JobState::gathering, "nothing starts while an attempt lives");
  if (remembered_end_ && !attempt_ && leadership_.quorum_follows()) {
    inherit_end(*std::exchange(remembered_end_, std::nullopt));
    try_end();
    return;
  }
  const Gathering::Decision decision = gathering_.decide(now_, workers_here(), count_refused());
  held_back_ = decision == Gathering::Decision::start;
  switch (decision) {
    case Gathering::Decision::wait:
      break;
    case Gathering::Decision::start:
      if (!leadership_.quorum_follows() && now_ >= gathering_.join_deadline()) {
        finish({Verdict::impossible, quorum_missing_text(), 0});
        break;
      }
      if (waits_for_followers() || leadership_.planning() || now_ < not_before_) {
        break;
      }
      if (waits_for_old_world()) {
        if (!std::exchange(fence_told_, true)) {
          tell_waiting();
        }
        break;
      }
      if (!environment_check_.ready_to_start()) {
        break;
      }
      if (leadership_.quorum_follows()) {
        plan();
      }
      break;
    case Gathering::Decision::give_up:
      finish(gathering_.is_hopeless(count_refused())
                 ? refused_ending()
                 : Ending{Verdict::impossible, missing_text(), 0});
      break;
  }
}

std::size_t Membership::workers_here() const {
  return nodes_.size() - static_cast<std::size_t>(witnesses_ + leaving_);
}

/// The next world, as who is here makes it.
std::vector<RankedNode> Membership::ranked() const {
  std::vector<RankCandidate> candidates;
  candidates.reserve(nodes_.size());
  for (const auto& [id, node] : nodes_) {
    if (!node.witness && !node.leaving) {
      candidates.push_back({id, node.hosts_coordinator, node.node_rank, node.order_hint,
                            node.last_group_rank, node.host_name, node.role,
                            node.local_world_size});
    }
  }
  return assign_ranks(std::move(candidates), options_.max_nodes);
}

/// No attempt lives, and something is waited for.
bool Membership::waits() const {
  return state_ == JobState::gathering || state_ == JobState::ending;
}

/// The next world, or while an attempt lives the world that it has.
std::vector<NodeId> Membership::members() const {
  std::vector<NodeId> members;
  if (waits()) {
    if (workers_here() > 0) {  // else witnesses alone are here, for the end of the job
      for (const RankedNode& one : ranked()) {
        members.push_back(one.node);
      }
    }
    return members;
  }
  for (const auto& [id, node] : nodes_) {
    if (node.phase != Phase::idle) {
      members.push_back(id);
    }
  }
  std::sort(members.begin(), members.end(), [this](NodeId a, NodeId b) {
    return nodes_.at(a).last_group_rank < nodes_.at(b).last_group_rank;
  });
  return members;
}

/// Joins and losses invalidate a pending proposal. Back off, so that a burst of joins causes one
/// new proposal, not one each.
void Membership::put_off_plan() {
  plan_pause_ = std::clamp(2 * plan_pause_, kPlanPauseMin, kPlanPauseMax);
  not_before_ = std::max(not_before_, now_ + plan_pause_);
}

/// A world of other nodes than before is first made known to those who may have to go on without
/// this coordinator (leadership.h).
void Membership::plan() {
  std::optional<Leadership::Plan> planned;
  if (leadership_.enabled()) {
    std::vector<NodeId> witnesses;
    for (const auto& [id, node] : nodes_) {
      if (node.witness) {
        witnesses.push_back(id);
      }
    }
    planned = state_ == JobState::ending ? leadership_.plan_end(members(), witnesses)
                                         : leadership_.plan(members(), witnesses);
  }
  if (planned && !planned->voters.empty()) {
    commands_.push_back(
        Replicate{std::move(planned->voters), std::move(planned->replicated), story()});
  }
  if (!planned || leadership_.committed()) {
    committed();
  }
}

/// What was planned may be used now.
void Membership::committed() {
  if (state_ == JobState::gathering) {
    assign();
  } else if (state_ == JobState::ending) {
    tell_end();
  } else if (attempt_ && state_ != JobState::over) {
    // The same world, and others that vote. A world that is handed out says itself that its
    // configuration is in use; here the voters have to be told.
    leadership_.handed_out(*attempt_);
    commands_.push_back(Replicate{leadership_.voters(), leadership_.in_use(), story()});
  }
}

/// Carries out what the agreement asks for (environment_check.h).
void Membership::agree() {
  if (state_ == JobState::ending || state_ == JobState::over) {
    return;
  }
  EnvironmentCheck::Step step = environment_check_.take_actions();
  for (const NodeId id : step.ask) {
    commands_.push_back(AskEnvironment{id});
  }
  if (!step.table.empty()) {
    commands_.push_back(TellEnvironments{std::move(step.table)});
  }
  for (auto& [id, refused] : step.refused) {
    commands_.push_back(Reject{id, refused.why, refused.todo});
    if (auto who = kept_out_.extract(id)) {
      will_not_come(std::move(who.mapped()), {std::move(refused), Verdict::disagreed});
    }
  }
  if (step.ending) {
    end_job({Verdict::disagreed, std::move(*step.ending), 0});
  }
}

bool Membership::lets_in(const NodeJoined& event) {
  if (environment_check_.admits(event.node, event.description)) {
    return true;
  }
  kept_out_[event.node] = {event.description.host_name, event.address};
  return false;
}

/// It is not waited for any more; one that its supervisor starts again counts once.
void Membership::will_not_come(HostAndAddress who, Refused refused) {
  if (state_ != JobState::gathering ||
      refused_.size() >= static_cast<std::size_t>(options_.max_nodes)) {
    return;
  }
  const bool is_new = refused_.insert_or_assign(std::move(who), std::move(refused)).second;
  if (is_new && workers_here() + refused_.size() >= static_cast<std::size_t>(options_.max_nodes)) {
    tell_waiting();  // why nobody is waited for any more
  }
  try_start();
}

/// While those that voted for this coordinator are on their way, nobody knows who else may come.
std::size_t Membership::count_refused() const {
  // Once the job has run it misses a node that it had: a stray command, or a replacement that is
  // started wrongly, does not end it.
  const bool has_run = attempt_ || options_.inheritance;
  return waits_for_followers() || has_run ? 0 : refused_.size();
}

void Membership::on(EnvironmentTold event) {
  environment_check_.on_facts(event.node, std::move(event.environment));
}

void Membership::assign() {
  const std::vector<RankedNode> ranked = this->ranked();
  DDP_CHECK(ranked.size() >= static_cast<std::size_t>(options_.min_nodes), "min nodes are here");
  for (auto& [id, node] : nodes_) {
    node.last_group_rank.reset();
  }
  attempt_ = leadership_.next_attempt();
  const bool keeps_void = leadership_.handed_out(*attempt_);
  fence_.handed_out();
  state_ = JobState::running;
  world_nodes_ = working_ = unstarted_ = static_cast<int>(ranked.size());
  world_size_ = ranked.front().world.world_size;
  finished_ = 0;
  story_ = {};
  left_unasked_ = false;
  waiting_room_.clear();
  refused_.clear();
  record_.assigned(now_, *attempt_, world_nodes_);
  commands_.push_back(OpenStore{*attempt_});
  const auto own = std::count_if(ranked.begin(), ranked.end(), [this](const RankedNode& one) {
    return nodes_.at(one.node).hosts_coordinator;
  });
  const int others = world_nodes_ - static_cast<int>(own);
  for (const RankedNode& one : ranked) {
    Node& node = nodes_.at(one.node);
    node.phase = Phase::working;
    node.started = node.stepped = false;
    node.last_group_rank = one.world.group_rank;
    node.base_rank = one.world.base_rank;
    World world = one.world;
    world.attempt = *attempt_;
    world.restarts_used = policy_.budget().used();
    commands_.push_back(
        AssignWorld{one.node, std::move(world), leadership_.in_use().configuration.number,
                    leadership_.in_use().term, others, leadership_.in_use().instance});
  }
  if (keeps_void) {
    commands_.push_back(Replicate{leadership_.voters(), leadership_.in_use(), story()});
  }
  tell_story();
}

void Membership::tell_story() {
  story_told_at_ = now_;
  if (!leadership_.voters().empty()) {
    commands_.push_back(TellStory{leadership_.voters(), *attempt_, story()});
  }
  if (leaving_ > 0) {
    release_leaving();
  }
}

/// For a successor.
SharedSummary Membership::story() const {
  JobSummary so_far = record_.so_far(now_);
  if (state_ == JobState::ending) {
    so_far.verdict = ending_->verdict;
    so_far.reason = ending_->reason;
    so_far.stop_signal = ending_->stop_signal;
  }
  so_far.restarts_used = policy_.budget().used();
  so_far.max_restarts = policy_.budget().max();
  so_far.restart_state = policy_.state(now_);
  return std::make_shared<JobSummary>(std::move(so_far));
}

}  // namespace ddprun
