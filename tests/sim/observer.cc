#include "tests/sim/observer.h"

#include <algorithm>
#include <iterator>

#include "rendezvous/membership/event_text.h"

namespace ddprun::sim {
namespace {

/// Any other end may be one without a quorum: of one node alone.
bool is_of_all(Verdict verdict) {
  return verdict == Verdict::succeeded || verdict == Verdict::failed;
}

bool failed_by_itself(const FailureRecord& record) {
  return !record.after_stop && !record.exit.success();
}

std::size_t count_of(const std::set<VoterId>& some, const std::vector<VoterId>& all) {
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](VoterId id) { return some.contains(id); }));
}

/// More than half.
bool is_most(const std::set<VoterId>& some, const std::vector<VoterId>& all) {
  return 2 * count_of(some, all) > all.size();
}

}  // namespace

void Observer::broken(const std::string& what) {
  if (violation_.empty()) {
    violation_ = what;
  }
}

// --- Who lives ------------------------------------------------------------------------------

void Observer::workers_live(int machine, AttemptNumber attempt) {
  if (live_.contains(machine)) {
    broken("n" + std::to_string(machine) + " starts an attempt while another lives there");
  }
  live_[machine] = attempt;
  if (!excused_.contains(machine)) {
    ++live_nodes_[number(attempt)];
    check_overlap();
  }
}

void Observer::workers_gone(int machine) {
  const auto found = live_.find(machine);
  if (found == live_.end()) {
    return;
  }
  const std::uint32_t attempt = number(found->second);
  live_.erase(found);
  if (!excused_.contains(machine) && --live_nodes_[attempt] == 0) {
    live_nodes_.erase(attempt);
  }
}

void Observer::excuse(int machine, bool excused) {
  if (excused == excused_.contains(machine)) {
    return;
  }
  const auto found = live_.find(machine);
  if (excused) {
    excused_.insert(machine);
    if (found != live_.end() && --live_nodes_[number(found->second)] == 0) {
      live_nodes_.erase(number(found->second));
    }
    return;
  }
  excused_.erase(machine);
  if (found != live_.end()) {
    ++live_nodes_[number(found->second)];
    check_overlap();
  }
}

void Observer::check_overlap() {
  if (live_nodes_.size() > 1) {
    broken("workers of attempts " + std::to_string(live_nodes_.begin()->first) + " and " +
           std::to_string(live_nodes_.rbegin()->first) + " live at once");
  }
}

// --- Coordinators ---------------------------------------------------------------------------

void Observer::leadership_begins(LeadershipId leadership, int machine, Term term, VoterId self,
                                 int restarts_used, const std::set<VoterId>& votes,
                                 const ReplicatedState& inherited) {
  Watched& one = leads_[leadership];
  one.machine = machine;
  one.term = term;
  one.self = self;
  one.restarts_used = restarts_used;
  one.configuration = any_world() && !votes.empty() ? configuration_ : inherited.configuration;
  one.before = inherited.before;
  one.ends = inherited.ends;
  one.newest = inherited.configuration;
  one.knows = inherited.log_position();
  one.begins = votes.empty() && inherited.configuration.voters.empty();
  began_anew_ = began_anew_ || (one.begins && any_world());
  if (began_anew_ && !one.begins && count_of(votes, configuration_.voters) == 0) {
    begun_twice_ = true;  // it comes after one that could not know
    return;
  }
  one.by_the_rest = one.ends && is_made_by_the_rest(one, votes);
  // One that begins anew has the first term until it hands out a world.
  if (any_world() && !one.begins && !one.by_the_rest && !terms_.insert(number(term)).second) {
    broken("two coordinators of term " + std::to_string(number(term)));
  }
  if (!one.begins) {
    if (!sim_.service && any_world() && term > configuration_term_ && !one.by_the_rest &&
        !is_most(began_anew_ ? with_dead(votes) : votes, configuration_.voters)) {
      broken("a minority makes a coordinator: " +
             std::to_string(count_of(votes, configuration_.voters)) + " of the " +
             std::to_string(configuration_.voters.size()) + " voters of the newest world");
    }
    // What the coordinator before decided last may have reached the standby, or not; a witness is
    // waited for by nobody, and may be behind by some more.
    // A service that is away keeps nothing of what is decided meanwhile.
    const int behind = service_ != nullptr && service_->was_in_trouble() ? options_.max_restarts
                                                                         : 1 + 3 * sim_.witnesses;
    const bool comes_too_late = configuration_term_ > term;  // it will hand out nothing
    if (!comes_too_late &&
        (restarts_used > restarts_used_ + 1 || restarts_used < restarts_used_ - behind)) {
      broken("a successor begins with " + std::to_string(restarts_used) + " restarts used, not " +
             std::to_string(restarts_used_));
    }
  }
}

/// One that began anew at the endpoint has the votes of the dead with it, and so have those that it
/// told its first world.
std::set<VoterId> Observer::with_dead(const std::set<VoterId>& votes) const {
  std::set<VoterId> all = votes;
  all.insert(gone_.begin(), gone_.end());
  return all;
}

/// Where the job is over, all that is left of the newest world may tell each other so, though it is
/// a minority; and so may a majority of these after them. Its configurations name no others then. A
/// term of theirs may be one in which another has told the end, and is gone.
bool Observer::is_made_by_the_rest(Watched& one, const std::set<VoterId>& votes) {
  const std::vector<VoterId>& all = configuration_.voters;
  const auto names_the_rest = [&](const Configuration& configuration) {
    return count_of(votes, configuration.voters) == configuration.voters.size();
  };
  if (names_the_rest(one.newest) &&
      std::all_of(one.before.begin(), one.before.end(), names_the_rest) &&
      std::all_of(all.begin(), all.end(),
                  [&](VoterId id) { return votes.contains(id) || gone_.contains(id); })) {
    std::vector<VoterId>& rest = rests_.emplace_back();
    std::copy_if(all.begin(), all.end(), std::back_inserter(rest),
                 [&](VoterId id) { return votes.contains(id); });
  }
  const auto rest = std::find_if(rests_.rbegin(), rests_.rend(),
                                 [&](const auto& some) { return is_most(votes, some); });
  if (rest == rests_.rend()) {
    return false;
  }
  one.configuration.voters = *rest;
  one.of_the_rest = true;
  return !is_most(votes, all);
}

void Observer::leadership_ends(LeadershipId leadership) {
  leads_.erase(leadership);
}

void Observer::note(Watched& one, const Event& event) {
  const auto current = [&](NodeId node, AttemptNumber attempt) {
    return one.attempt == attempt && one.members.contains(node);
  };
  if (const auto* lost = std::get_if<NodeLost>(&event)) {
    one.contenders.erase(lost->node);
    if (const KnownNode* node = one.known.find(lost->node)) {
      if (lost->died && number(node->voter) != 0 && !gone_.contains(node->voter)) {
        broken("a node counts as dead, and its agent lives");
      }
      // A vote for this coordinator, or for itself, binds it to nobody else.
      const bool voted_for_another = std::any_of(
          node->granted.begin(), node->granted.end(),
          [&](VoterId candidate) { return candidate != one.self && candidate != node->voter; });
      if (lost->died && !voted_for_another && !node->beyond) {
        one.dead.insert(node->voter);
      }
      one.known.erase(lost->node);
    }
    one.origin_seen = one.origin_seen || one.members.contains(lost->node);
  } else if (std::get_if<NodeJoined>(&event) != nullptr) {
    one.origin_seen = true;
  } else if (const auto* asked = std::get_if<StopRequested>(&event)) {
    if (asked->wish == StopWish::leave && one.known.contains(asked->node)) {
      one.known.leaves(asked->node);  // unless it is the last, and then the job ends
      one.origin_seen = true;
    }
  } else if (const auto* failed = std::get_if<WorkerFailed>(&event)) {
    one.fault_seen = one.fault_seen ||
                     (current(failed->node, failed->attempt) && failed_by_itself(failed->record));
  } else if (const auto* stopped = std::get_if<WorkersStopped>(&event)) {
    const bool fault =
        std::any_of(stopped->records.begin(), stopped->records.end(), failed_by_itself);
    one.fault_seen = one.fault_seen || (current(stopped->node, stopped->attempt) && fault);
    if (current(stopped->node, stopped->attempt) && stopped->progress.complete) {
      one.finished.insert(stopped->node);
    }
  } else if (const auto* acknowledged = std::get_if<StateAcknowledged>(&event)) {
    if (acknowledged->configuration == one.configuration.number && one.attempt) {
      one.known.release(acknowledged->node);  // late: others were enough
    }
  } else if (const auto* finished = std::get_if<WorkersFinished>(&event)) {
    if (current(finished->node, finished->attempt)) {
      one.finished.insert(finished->node);
    }
  }
}

void Observer::after(Duration now, LeadershipId leadership, const Event& event,
                     const std::vector<Command>& commands, JobState state) {
  Watched& one = leads_.at(leadership);
  const std::size_t known_before = one.known.size();
  note(one, event);
  std::vector<AssignWorld> assigned;
  // Nothing that it remembers counts while it waits for a rank.
  contends_ = std::any_of(commands.begin(), commands.end(), [](const Command& command) {
    return std::holds_alternative<WatchNode>(command);
  });
  for (const Command& command : commands) {
    check_order(one, event, command);
    if (const auto* assign = std::get_if<AssignWorld>(&command)) {
      assigned.push_back(*assign);
    }
  }
  if (!assigned.empty()) {
    check_world(one, assigned);
  } else if (withholds_world(one, commands)) {
    rise(one, term_of(one.planned.number));
    use(one, one.planned);
  }
  const bool moved = one.known.size() != known_before ||
                     std::holds_alternative<NodeJoined>(event) ||
                     std::holds_alternative<NodeLost>(event);
  if (state == JobState::running || state == JobState::over) {
    one.able_since.reset();
  } else if (moved || state != one.state || !commands.empty()) {
    const bool enough = one.known.workers() >= static_cast<std::size_t>(options_.min_nodes);
    const bool able = decides_now(one) && (enough || state == JobState::ending);
    if (!able) {
      one.able_since.reset();
    } else if (!one.able_since || moved) {
      one.able_since = now;
    }
  }
  one.state = state;
}

/// A coordinator that was stopped withholds a world when its contact with the quorum is too old.
/// But the configuration is committed, and voters have been told that.
bool Observer::withholds_world(const Watched& one, const std::vector<Command>& commands) {
  return std::any_of(commands.begin(), commands.end(), [&](const Command& command) {
    const auto* told = std::get_if<TellStory>(&command);
    return told != nullptr && (!one.attempt || told->attempt > *one.attempt) &&
           one.planned.number > one.configuration.number;
  });
}

void Observer::note_announced(Watched& one, const Replicate& told) {
  // By a service, what nobody kept binds nobody.
  if (service_ == nullptr && one.begins && !one.past && (any_world() || others_planned(one))) {
    begun_twice_ = true;  // what it tells its voters binds as a world does
  }
  announced_ = told.replicated.configuration;
  if (told.replicated.ends) {
    one.end_term = told.replicated.term;
    one.workers_at_end = one.workers_at_end.value_or(one.known.workers());
  } else {
    one.is_world_planned = true;
  }
  if (told.replicated.ends && told.so_far->verdict == Verdict::succeeded) {
    success_is_known_ = success_is_known_ || has_finished(one);
  }
  one.planned = announced_;
  one.announced.insert(announced_.number);
  all_announced_.insert(announced_.number);
  if (one.configuration.voters.empty()) {
    one.configuration = announced_;  // binds from here on: standbys may go on with it
  }
  // Told again to a voter that came back, it makes no vote for another candidate void.
  if (one.attempt && told.replicated.before.empty() &&
      announced_.number != one.configuration.number) {
    rise(one, told.replicated.term);
    use(one, announced_);  // the same world, and other witnesses
    one.is_world_planned = false;
  }
}

void Observer::check_order(Watched& one, const Event& event, const Command& command) {
  if (const auto* welcome = std::get_if<Welcome>(&command)) {
    const NodeDescription& node = std::get<NodeJoined>(event).description;
    if (node.past) {
      one.remembered = std::max(one.remembered, node.past->attempt);
    }
    const Promise& promise = node.promise;
    if (one.begins && !one.attempt && !contends_) {
      adopt(one, node);
      // Also one that began first, if others began the world without it.
      began_anew_ = began_anew_ || (one.past && any_world());
    }
    const bool beyond =
        !one.knows.covers(promise.configuration) && !one.announced.contains(promise.configuration);
    one.known.add(welcome->node, {node.voter, node.local_world_size, node.witness, false,
                                  promise.granted, beyond});
  } else if (const auto* reject = std::get_if<Reject>(&command)) {
    if (reject->why.empty() || one.members.contains(reject->node)) {
      broken("a rejection without a reason, or of a member");
    }
    one.known.erase(reject->node);
    return;
  } else if (const auto* finish = std::get_if<FinishJob>(&command)) {
    rise(one, is_of_all(finish->summary->verdict) ? one.end_term : one.term);
    check_end(one, *finish->summary);
    return;
  } else if (const auto* told = std::get_if<Replicate>(&command)) {
    note_announced(one, *told);
  } else if (std::holds_alternative<WatchNode>(command)) {
    ++contests_;
  } else if (const auto* assign = std::get_if<AssignWorld>(&command)) {
    one.configuration.number = assign->configuration;
    one.is_world_planned = false;
  }
  if (one.over) {
    broken("an order after the end of the job: " + to_text(command));
  }
  const bool known = std::visit(
      [&](const auto& order) {
        if constexpr (requires { order.node; }) {
          return one.known.contains(order.node);
        }
        return true;
      },
      command);
  if (!known) {
    broken("an order to a node that is not here: " + to_text(command));
  }
}

// --- Worlds ---------------------------------------------------------------------------------

void Observer::check_world(Watched& one, const std::vector<AssignWorld>& assigned) {
  const World& first = assigned.front().world;
  const std::uint32_t attempt = number(first.attempt);
  check_service(one, assigned.front().configuration);
  if (one.begins && !one.past && any_world()) {
    begun_twice_ = true;
    return;
  }
  rise(one, assigned.front().term);
  // All who knew of the end are gone, as they should be; or the service was away when the job
  // ended.
  if (over_ && (one.begins || (service_ != nullptr && !service_->has_kept_end()))) {
    begun_twice_ = true;
    return;
  }
  // A machine that was suspended does not know how long ago its quorum agreed. Nobody is connected
  // with it any more, and its own workers live for half a heartbeat timeout at most.
  const bool too_late = excused_.contains(one.machine);
  if (over_ && !too_late) {
    broken("a world is handed out after the end of the job");
  }
  const bool overtaken = too_late && one.term < configuration_term_;
  if (one.attempt ? attempt != number(std::max(*one.attempt, one.remembered)) + 1
                  : !attempts_.empty() && attempt <= *attempts_.rbegin() && !overtaken) {
    broken("attempt numbers do not rise");
  }
  if (!attempts_.insert(attempt).second) {
    broken("attempt " + std::to_string(attempt) + " was used before");
  }
  if (!has_quorum(one, configuration_term_ <= one.term ? configuration_ : one.configuration,
                  true)) {
    broken("a minority hands out attempt " + std::to_string(attempt));
  }
  check_ranks(one, assigned);
  if (!one.first_world || one.term == Term{1}) {
    check_budget(one, first.restarts_used);
  } else if (first.restarts_used != one.restarts_used) {
    broken("a successor spends a restart before its first world");
  }
  Configuration configuration{assigned.front().configuration, {}};
  one.members.clear();
  for (const AssignWorld& assign : assigned) {
    one.members.insert(assign.node);
    configuration.voters.push_back(one.known.find(assign.node)->voter);
  }
  for (const auto& [id, node] : one.known.all()) {
    if (node.witness) {
      configuration.voters.push_back(node.voter);
    }
  }
  if (sim_.failover) {
    configuration = one.planned.number == configuration.number ? one.planned : one.configuration;
  }
  std::sort(configuration.voters.begin(), configuration.voters.end());
  // A witness may be here twice, before its old connection is known to be gone: it votes once.
  configuration.voters.erase(std::unique(configuration.voters.begin(), configuration.voters.end()),
                             configuration.voters.end());
  use(one, configuration);
  if (one.term == configuration_term_) {
    restarts_used_ = first.restarts_used;
  }
  one.attempt = first.attempt;
  one.first_world = one.begins = false;
  one.before.clear();
  one.newest = {};
  one.finished.clear();
  one.restarts_used = first.restarts_used;
  one.fault_seen = one.origin_seen = false;
}

/// Nothing starts that the service would not hand to the next leader; and what it has nobody begins
/// anew.
void Observer::check_service(const Watched& one, ConfigurationNumber configuration) {
  if (service_ == nullptr) {
    return;
  }
  if (!service_->has_kept(configuration)) {
    broken("a world starts that the service has not kept");
  }
  if (one.begins && any_world() && !one.attempt && !service_->has_forgotten() &&
      !service_->has_kept_end() && !summary_) {
    broken("a job is begun anew that the service has");
  }
}

/// To a later term, by the votes of those that prepared. What is left of the newest world has no
/// votes of those that are gone: another may have told the end in that term, to them.
void Observer::rise(Watched& one, Term term) {
  if (term > one.term && !one.of_the_rest && !terms_.insert(number(term)).second) {
    broken("two coordinators of term " + std::to_string(number(term)));
  }
  one.term = std::max(one.term, term);
}

void Observer::use(Watched& one, const Configuration& configuration) {
  one.configuration = configuration;
  one.knows.settled = configuration.number;
  one.known.release_all();
  const auto [same, is_new] = committed_.emplace(configuration.number, configuration.voters);
  if (!is_new && same->second != configuration.voters) {
    broken("two configurations with one number are committed");
  }
  if (one.term >= configuration_term_) {
    configuration_ = configuration;
    configuration_term_ = one.term;
  }
}

void Observer::check_ranks(const Watched& one, const std::vector<AssignWorld>& assigned) {
  const World& first = assigned.front().world;
  const auto nodes = static_cast<int>(assigned.size());
  if (nodes < options_.min_nodes || nodes > options_.max_nodes) {
    broken("a world of " + std::to_string(nodes) + " nodes");
  }
  int next_rank = 0;
  int next_node = 0;
  std::set<NodeId> seen;
  for (const AssignWorld& assign : assigned) {
    const World& w = assign.world;
    if (w.attempt != first.attempt || w.world_size != first.world_size ||
        w.group_world_size != nodes || w.group_rank != next_node || w.base_rank != next_rank ||
        w.restarts_used != first.restarts_used) {
      broken("the worlds of one attempt do not agree: " + to_text(Command(assign)));
    }
    const KnownNode* node = one.known.find(assign.node);
    if (node == nullptr || node->witness || !seen.insert(assign.node).second) {
      broken("a world has a node twice, one that is not here, or a witness");
      return;
    }
    next_rank += node->workers;
    ++next_node;
  }
  if (next_rank != first.world_size) {
    broken("the ranks are no partition of the world");
  }
}

/// Between two attempts one restart is spent at most; for sure when a worker failed and nothing
/// else happened; for sure not when no worker failed.
void Observer::check_budget(const Watched& one, int restarts_used) {
  if (!one.attempt) {
    if (restarts_used != one.restarts_used) {
      broken("a restart is spent before the first attempt");
    }
    return;
  }
  const int spent = restarts_used - one.restarts_used;
  if (restarts_used > options_.max_restarts || spent < 0 || spent > 1) {
    broken("the budget is not kept");
  }
  if (spent == 1 && !one.fault_seen) {
    broken("a restart was spent though no worker failed");
  }
  if (spent == 0 && one.fault_seen && !one.origin_seen && !sim_.policy) {
    broken("a worker failed and no restart was spent");
  }
}

void Observer::check_end(Watched& one, const JobSummary& summary) {
  if (one.over) {
    broken("the job ends twice");
  }
  one.over = true;
  incidents_ += static_cast<int>(summary.incidents.size());
  if (summary.verdict == Verdict::succeeded) {
    if (!has_finished(one) && !(one.ends && success_is_known_)) {
      broken("success though not all nodes finished");
    }
  } else if (summary.reason.empty()) {
    broken("a bad end without a reason");
  }
  if (summary.verdict == Verdict::failed && !sim_.policy &&
      (summary.incidents.empty() || summary.incidents.back().records.empty() ||
       summary.incidents.back().records.front().blame != Blame::cause ||
       summary.restarts_used != options_.max_restarts)) {
    broken("a failure without a cause, or with budget left");
  }
  // A service that keeps nothing, or does not say so, is waited for up to the join timeout.
  const bool is_refused = service_ != nullptr && one.is_world_planned;
  // Who comes while the end is being kept comes too late.
  const std::size_t workers = one.workers_at_end.value_or(one.known.workers());
  if (summary.verdict == Verdict::impossible && !is_refused && decides_now(one) &&
      workers >= static_cast<std::size_t>(options_.min_nodes)) {
    broken("the job is given up with enough nodes: " + summary.reason);
  }
  const auto spent = std::count_if(summary.incidents.begin(), summary.incidents.end(),
                                   [](const Incident& i) { return i.spent_restart; });
  if (summary.incidents.size() < kIncidentsMax && spent != summary.restarts_used) {
    broken("the incidents do not add up to the restarts used");
  }
  if (!summary_) {
    summary_ = summary;
  }
  // One that begins alone speaks for itself: it cannot know of a job that others are in.
  const bool decides = decides_now(one) && (!one.begins || one.past || !others_planned(one));
  // A verdict that the service could not keep is acknowledged all the same, also where another one
  // has come to lead meanwhile, out of sight, and has told its own.
  const bool is_own_kept =
      service_ == nullptr || one.planned.voters.empty() || service_->has_kept(one.planned.number);
  const bool is_kept = service_ == nullptr || (service_->has_kept_end() && is_own_kept);
  if (summary.verdict == Verdict::succeeded && !decides && is_kept) {
    broken("a minority declares that the job succeeded");
  }
  // What a service has not kept binds no other node: the same command goes on, or begins anew.
  if (!is_kept) {
    return;
  }
  if (over_ && decides && summary.verdict != *over_) {
    broken("the job ends in two ways");
  }
  if (!over_ && decides) {
    over_ = summary.verdict;
  }
}

bool Observer::others_planned(const Watched& one) const {
  return std::any_of(all_announced_.begin(), all_announced_.end(),
                     [&](ConfigurationNumber number) { return !one.announced.contains(number); });
}

bool Observer::has_finished(const Watched& one) const {
  return one.finished == one.members && !one.members.empty();
}

/// A world is on its way when all is here for so long; the longest on its way to it: a silent node,
/// a slow stop, the last call, and the pause after attempts that got nowhere.
void Observer::check_progress(Duration now) {
  const Duration bound = options_.last_call_timeout + 4 * sim_.heartbeat_timeout + seconds(5) +
                         (sim_.policy ? seconds(60) : seconds(0));
  for (auto& [id, one] : leads_) {
    if (one.able_since && unserved_.contains(one.machine)) {
      one.able_since = now;
    }
    if (one.able_since && excused_.contains(one.machine)) {
      one.able_since = now;
    }
    if (one.able_since && now - *one.able_since > bound) {
      broken("enough nodes are here and nothing runs");
    }
  }
}

}  // namespace ddprun::sim
