#include "tests/sim/invariants.h"

#include <algorithm>

#include "rendezvous/membership/trace.h"

namespace ddprun::sim {
namespace {

template <class Kind>
NodeId target(const Kind& command) {
  return command.node;
}

}  // namespace

void Invariants::broken(const std::string& what) {
  if (violation_.empty()) {
    violation_ = what;
  }
}

void Invariants::workers_live(std::uint64_t node, AttemptNumber attempt) {
  live_[node] = attempt;
  ++live_nodes_[number(attempt)];
  if (live_nodes_.size() > 1) {
    broken("workers of two attempts live at once");
  }
  if (summary_) {
    broken("workers start after the end of the job");
  }
}

void Invariants::workers_gone(std::uint64_t node) {
  const auto found = live_.find(node);
  if (found == live_.end()) {
    return;
  }
  if (--live_nodes_[number(found->second)] == 0) {
    live_nodes_.erase(number(found->second));
  }
  live_.erase(found);
}

void Invariants::note(const Event& event) {
  const auto own_fault = [](const FailureRecord& r) { return !r.after_stop && !r.exit.success(); };
  const auto current = [&](NodeId node, AttemptNumber attempt) {
    return attempt_ == number(attempt) && members_.contains(node);
  };
  if (const auto* lost = std::get_if<NodeLost>(&event)) {
    known_.erase(lost->node);
    origin_seen_ = origin_seen_ || members_.contains(lost->node);
  } else if (std::get_if<NodeJoined>(&event) != nullptr) {
    origin_seen_ = true;
  } else if (const auto* failed = std::get_if<WorkerFailed>(&event)) {
    fault_seen_ =
        fault_seen_ || (current(failed->node, failed->attempt) && own_fault(failed->record));
  } else if (const auto* stopped = std::get_if<WorkersStopped>(&event)) {
    const bool fault = std::any_of(stopped->records.begin(), stopped->records.end(), own_fault);
    fault_seen_ = fault_seen_ || (current(stopped->node, stopped->attempt) && fault);
  } else if (const auto* finished = std::get_if<WorkersFinished>(&event)) {
    if (current(finished->node, finished->attempt)) {
      finished_.insert(finished->node);
    }
  }
}

void Invariants::after(const Event& event, const std::vector<Command>& commands) {
  note(event);
  std::vector<AssignWorld> assigned;
  for (const Command& command : commands) {
    if (const auto* welcome = std::get_if<Welcome>(&command)) {
      known_.insert(welcome->node);
      workers_[welcome->node] = std::get<NodeJoined>(event).description.local_world_size;
    } else if (const auto* reject = std::get_if<Reject>(&command)) {
      // One that was welcomed may only have waited for a rank.
      if (reject->why.empty() || members_.contains(reject->node)) {
        broken("a rejection without a reason, or of a member");
      }
      known_.erase(reject->node);
      continue;
    } else if (const auto* assign = std::get_if<AssignWorld>(&command)) {
      assigned.push_back(*assign);
    } else if (const auto* finish = std::get_if<FinishJob>(&command)) {
      check_end(finish->summary);
      continue;
    }
    if (summary_) {
      broken("an order after the end of the job: " + to_text(command));
    }
    const auto known = std::visit(
        [this](const auto& order) {
          if constexpr (requires { order.node; }) {
            return known_.contains(target(order));
          }
          return true;
        },
        command);
    if (!known) {
      broken("an order to a node that is not here: " + to_text(command));
    }
  }
  if (!assigned.empty()) {
    check_world(assigned);
  }
}

void Invariants::check_world(const std::vector<AssignWorld>& assigned) {
  const World& first = assigned.front().world;
  const std::uint32_t expected = attempt_ ? *attempt_ + 1 : 0;
  if (number(first.attempt) != expected) {
    broken("attempt numbers do not rise by one");
  }
  if (!live_.empty()) {
    broken("an attempt is assigned while workers of another live");
  }
  const auto nodes = static_cast<int>(assigned.size());
  if (nodes < options_.min_nodes || nodes > options_.max_nodes) {
    broken("a world of " + std::to_string(nodes) + " nodes");
  }
  int next_rank = 0;
  std::set<NodeId> members;
  for (const AssignWorld& one : assigned) {
    const World& w = one.world;
    if (w.attempt != first.attempt || w.world_size != first.world_size ||
        w.group_world_size != nodes || w.group_rank != static_cast<int>(members.size()) ||
        w.base_rank != next_rank || w.restarts_used != first.restarts_used) {
      broken("the worlds of one attempt do not agree: " + to_text(Command(one)));
    }
    next_rank += workers_[one.node];
    if (!members.insert(one.node).second) {
      broken("a node is twice in one world");
    }
  }
  if (next_rank != first.world_size) {
    broken("the ranks are no partition of the world");
  }
  if (attempt_) {
    check_budget(first.restarts_used);
  }
  attempt_ = number(first.attempt);
  members_ = std::move(members);
  finished_.clear();
  restarts_used_ = first.restarts_used;
  fault_seen_ = origin_seen_ = false;
}

/// Between two attempts one restart is spent at most; for sure when a worker failed and nothing
/// else happened; for sure not when no worker failed.
void Invariants::check_budget(int restarts_used) {
  const int spent = restarts_used - restarts_used_;
  if (restarts_used > options_.max_restarts || spent < 0 || spent > 1) {
    broken("the budget is not kept");
  }
  if (spent == 1 && !fault_seen_) {
    broken("a restart was spent though no worker failed");
  }
  if (spent == 0 && fault_seen_ && !origin_seen_) {
    broken("a worker failed and no restart was spent");
  }
}

void Invariants::check_end(const JobSummary& summary) {
  if (summary_) {
    broken("the job ends twice");
  }
  if (!live_.empty() && summary.verdict != Verdict::succeeded) {
    broken("the job ended while workers live");
  }
  if (summary.verdict == Verdict::succeeded && finished_ != members_) {
    broken("success though not all nodes finished");
  }
  if (summary.verdict != Verdict::succeeded && summary.reason.empty()) {
    broken("a bad end without a reason");
  }
  if (summary.verdict == Verdict::failed &&
      (summary.incidents.empty() || summary.incidents.back().records.empty() ||
       summary.incidents.back().records.front().blame != Blame::cause ||
       summary.restarts_used != options_.max_restarts)) {
    broken("a failure without a cause, or with budget left");
  }
  const auto spent = std::count_if(summary.incidents.begin(), summary.incidents.end(),
                                   [](const Incident& i) { return i.spent_restart; });
  if (summary.incidents.size() < kIncidentsMax && spent != summary.restarts_used) {
    broken("the incidents do not add up to the restarts used");
  }
  if (summary.attempts != static_cast<int>(attempt_ ? *attempt_ + 1 : 0)) {
    broken("the summary miscounts the attempts");
  }
  summary_ = summary;
}

}  // namespace ddprun::sim
