// The part of JobCourse that leads from gathering nodes to a world that is handed out, and keeps
// the voters informed.
#include <algorithm>
#include <memory>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/job_course.h"
#include "rendezvous/membership/waiting_text.h"
#include "rendezvous/membership/world_notice.h"

namespace ddprun {
namespace {

/// How often voters are told of progress within an attempt. A successor takes what was done since
/// for lost, so this is about the error of its accounts.
constexpr std::chrono::seconds kStoryPace{5};

}  // namespace

void JobCourse::gather() {
  rest_ = Rest::gathering;
  leadership_.drop_plan();
  absent_.gathering_begins();
  start_.begin(now_, false);
  try_start();
  if (state() == JobState::gathering && !start_.is_held_back()) {
    release_leaving();  // it waits for others, maybe for long
  }
}

void JobCourse::try_start() {
  DDP_CHECK(state() == JobState::gathering, "nothing starts while an attempt lives");
  // A coordinator that began without state and finds that the job had ended makes that known
  // instead; unless it has handed out a world, which was newer then.
  if (!attempt_.number() && leadership_.quorum_follows()) {
    if (auto ending = inheritance_.take_remembered_end()) {
      ending_ = std::move(ending);
      rest_ = Rest::ending;
      try_end();
      return;
    }
  }
  // All have left in order, some of them while the attempt was stopped for others.
  const JobNode* const host = nodes_.host_that_left();
  if (host != nullptr && nodes_.any_leaves() && nodes_.workers_here() == 0 && attempt_.number()) {
    preempt(last_left(host->host_name, *host->left_by));
    return;
  }
  // Once the job has run it misses a node that it had: a stray command, or a replacement that is
  // started wrongly, does not end it. And while those that voted for this coordinator are on their
  // way, nobody knows who else may come.
  const bool has_run = attempt_.number() || options_.inheritance;
  const bool counts = !has_run && !start_.waits_for_followers(now_, nodes_.size());
  const std::size_t refused = counts ? absent_.refused_for_good() : 0;
  switch (start_.decide(now_, nodes_.size(), nodes_.workers_here(), refused, leadership_)) {
    case StartConditions::Decision::wait:
    case StartConditions::Decision::hold_back:
      break;
    case StartConditions::Decision::give_up:
      finish(start_.gathering().is_hopeless(refused)
                 ? absent_.ending(options_.min_nodes)
                 : JobEnding{Verdict::impossible, missing_text(facts()), 0});
      break;
    case StartConditions::Decision::no_quorum:
      finish({Verdict::impossible, no_quorum_text(facts()), 0});
      break;
    case StartConditions::Decision::tell_old_world:
      commands_.push_back(waiting_notice(facts()));
      break;
    case StartConditions::Decision::start:
      // Without a quorum the comparison may begin, so that it costs no time when one follows.
      if (environment_check_.ready_to_start() && leadership_.quorum_follows()) {
        plan();
      }
      break;
  }
}

/// A world of other nodes than before is first made known to those who may have to go on without
/// this coordinator (leadership.h). While an attempt lives its world stays, and only the voters
/// change.
void JobCourse::plan() {
  std::optional<Leadership::Plan> planned;
  if (leadership_.enabled()) {
    std::vector<NodeId> members;
    if (attempt_.lives()) {
      members = nodes_.members();
    } else if (nodes_.workers_here() >
               0) {  // else witnesses alone are here, for the end of the job
      for (const RankedNode& one : nodes_.ranked(options_.max_nodes)) {
        members.push_back(one.node);
      }
    }
    const std::vector<NodeId> others = nodes_.voters_besides(members);
    planned = state() == JobState::ending ? leadership_.plan_end(members, others)
                                          : leadership_.plan(members, others);
  }
  if (planned && !planned->voters.empty()) {
    commands_.push_back(
        Replicate{std::move(planned->voters), std::move(planned->replicated), so_far()});
  }
  if (!planned || leadership_.committed()) {
    committed();
  }
}

/// What was planned may be used now.
void JobCourse::committed() {
  switch (state()) {
    case JobState::gathering:
      assign();
      break;
    case JobState::running:
    case JobState::stopping:
      // The same world, and others that vote. A world that is handed out says itself that its
      // configuration is in use; here the voters have to be told.
      leadership_.handed_out(*attempt_.number());
      commands_.push_back(Replicate{leadership_.voters(), leadership_.in_use(), so_far()});
      release_leaving();
      break;
    case JobState::ending:
      tell_end();
      break;
    case JobState::over:
      break;
  }
}

void JobCourse::assign() {
  const std::vector<RankedNode> ranked = nodes_.ranked(options_.max_nodes);
  DDP_CHECK(ranked.size() >= static_cast<std::size_t>(options_.min_nodes), "min nodes are here");
  const AttemptNumber number = leadership_.next_attempt();
  const bool keeps_void = leadership_.handed_out(number);
  start_.handed_out();
  attempt_.begin(number, ranked);
  absent_.world_begins();
  accounts_.history().assigned(now_, number, attempt_.world_nodes());
  // The store first: workers connect to it as soon as they have their assignment.
  commands_.push_back(OpenStore{number});
  std::vector<NodeId> spares;
  for (auto& [id, node] : nodes_.all()) {
    if (node.phase != NodePhase::idle) {
      node.knows_it_is_spare = false;
      continue;
    }
    spares.push_back(id);
    if (!node.witness && !node.leaving && !std::exchange(node.knows_it_is_spare, true)) {
      commands_.push_back(
          spare_notice(id, options_, nodes_.workers_here(), attempt_.world_nodes()));
    }
  }
  // Before its own nodes are told, so that no worker runs that a spare knows nothing of.
  if (auto notice = world_notice(std::move(spares), leadership_, options_.self, number)) {
    commands_.push_back(std::move(*notice));
  }
  const auto own = std::count_if(ranked.begin(), ranked.end(), [this](const RankedNode& one) {
    return nodes_.at(one.node).hosts_coordinator;
  });
  const int others = attempt_.world_nodes() - static_cast<int>(own);
  const ReplicatedState& in_use = leadership_.in_use();
  for (const RankedNode& one : ranked) {
    World world = one.world;
    world.attempt = number;
    world.restarts_used = accounts_.budget().used();
    commands_.push_back(AssignWorld{one.node, std::move(world), in_use.configuration.number,
                                    in_use.term, others, in_use.instance,
                                    accounts_.history().ledger().wall_at(now_)});
  }
  if (keeps_void) {
    commands_.push_back(Replicate{leadership_.voters(), in_use, so_far()});
  }
  progress_told_at_ = now_;
  going_told_ = false;
  tell_story();
}

// --- Voters ---------------------------------------------------------------------------------

/// A voter that was away may have missed what the others were told since, and could be elected.
/// While an attempt runs it is none of its nodes, so others vote from here on.
void JobCourse::catch_up(NodeId id) {
  if (!leadership_.votes(id) || leadership_.planning()) {
    return;
  }
  if (state() == JobState::running) {
    plan();
  } else if (leadership_.is_free(id)) {
    commands_.push_back(Replicate{leadership_.voters(), leadership_.in_use(), so_far()});
  }
}

/// Workers without the runtime report no progress, so this is the last news of their attempt. With
/// the story of the assignment a successor would count the whole attempt as start-up, or as
/// downtime of the incident before. The pace of progress does not change.
void JobCourse::all_started() {
  DDP_CHECK(attempt_.all_started(), "voters store a start that is complete");
  tell_story();
}

/// The first step at once: with the story of the start alone a successor would count what was
/// trained since as downtime of an incident that is over.
void JobCourse::progress_told() {
  const bool is_going = accounts_.history().ledger().first_step_after().has_value();
  const bool has_begun = is_going && !std::exchange(going_told_, true);
  if (has_begun || now_ - progress_told_at_ >= kStoryPace) {
    progress_told_at_ = now_;
    tell_story();
  }
}

void JobCourse::tell_story() {
  DDP_CHECK(attempt_.number().has_value(), "voters are told of an attempt");
  if (!leadership_.voters().empty()) {
    commands_.push_back(TellStory{leadership_.voters(), *attempt_.number(), so_far()});
  }
  if (nodes_.any_leaves()) {
    release_leaving();
  }
}

/// For a successor. An end that is decided while workers are still being stopped is not in it: a
/// successor would take them for stopped.
SharedSummary JobCourse::so_far() const {
  const JobEnding* ending = state() == JobState::ending ? &*ending_ : nullptr;
  return std::make_shared<JobSummary>(accounts_.so_far(ending, now_));
}

}  // namespace ddprun
