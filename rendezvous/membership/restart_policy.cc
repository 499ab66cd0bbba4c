#include "rendezvous/membership/restart_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

std::string count_text(int count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string span_text(std::chrono::nanoseconds span) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(span).count()) + " s";
}

std::string spent_text(int max_restarts) {
  if (max_restarts == 0) {
    return "no restart is allowed (--max-restarts 0)";
  }
  return max_restarts == 1 ? "the only restart is spent"
                           : fmt::format("all {} restarts are spent", max_restarts);
}

/// `start` goes by what workers told, so without the worker runtime no failure is of that class.
/// All other classes go by what the agent saw.
bool is_of(const FailureRecord& cause, const AttemptStory& story, const FaultRule& rule) {
  if (cause.hung) {
    return rule.kind == FaultClass::hang;  // how we ended it says nothing
  }
  // One that we stopped on its way out would have exited.
  const bool exited = cause.exit.kind == ExitStatus::Kind::exited || cause.own_error;
  switch (rule.kind) {
    case FaultClass::oom:
      return cause.out_of_memory;
    case FaultClass::exit_code:
      return cause.exit.kind == ExitStatus::Kind::exited && cause.exit.value == rule.value;
    case FaultClass::signal:
      return !exited && cause.exit.value == rule.value;
    case FaultClass::start:
      return story.told && !story.stepped;
    case FaultClass::any_exit:
      return exited;
    case FaultClass::any_signal:
      return !exited;
    case FaultClass::hang:
    case FaultClass::node_lost:
      return false;
  }
  return false;
}

}  // namespace

/// FaultClass lists the special classes first. Within a class the user's order stays, so the first
/// rule that fits is the one to apply.
RestartPolicy::RestartPolicy(RestartRules rules)
    : rules_(std::move(rules)), budget_(rules_.max_restarts) {
  std::stable_sort(rules_.on_fault.begin(), rules_.on_fault.end(),
                   [](const FaultRule& a, const FaultRule& b) { return a.kind < b.kind; });
}

/// The count comes from another process, and may be anything; RestartBudget takes 0 to its maximum.
void RestartPolicy::resume(int used, const RestartState& state, Instant told_at) {
  budget_ = RestartBudget(rules_.max_restarts, std::clamp(used, 0, rules_.max_restarts));
  spent_at_.clear();
  for (const std::chrono::nanoseconds ago : state.spent_ago) {
    spent_at_.push_back(told_at - ago);
  }
  std::sort(spent_at_.begin(), spent_at_.end());
  before_first_step_ = state.before_first_step;
  without_progress_ = state.without_progress;
  best_saved_ = state.best_saved;
  best_steps_ = state.best_steps;
}

/// Ages rather than instants, because another coordinator has another clock.
RestartState RestartPolicy::state(Instant now) const {
  RestartState state{{}, before_first_step_, without_progress_, best_saved_, best_steps_};
  for (const Instant at : spent_at_) {
    if (rules_.window && now - at < rules_.window->span) {
      state.spent_ago.push_back(now - at);
    }
  }
  if (state.spent_ago.size() > kRestartsToldMax) {
    state.spent_ago.erase(state.spent_ago.begin(), state.spent_ago.end() - kRestartsToldMax);
  }
  DDP_CHECK(state.spent_ago.size() <= kRestartsToldMax, "what is told is bounded");
  return state;
}

const FaultRule* RestartPolicy::rule_for(const FailureRecord& cause,
                                         const AttemptStory& story) const {
  const auto found = std::find_if(rules_.on_fault.begin(), rules_.on_fault.end(),
                                  [&](const FaultRule& rule) { return is_of(cause, story, rule); });
  return found == rules_.on_fault.end() ? nullptr : &*found;
}

const FaultRule* RestartPolicy::rule_for_lost_node() const {
  const auto found =
      std::find_if(rules_.on_fault.begin(), rules_.on_fault.end(),
                   [](const FaultRule& rule) { return rule.kind == FaultClass::node_lost; });
  return found == rules_.on_fault.end() ? nullptr : &*found;
}

/// In the order of the header. What ends the job spends nothing: the summary then shows the
/// restarts that there were. Progress is judged last, for it only matters where another attempt
/// would begin.
RestartPolicy::Decision RestartPolicy::decide(const Incident& incident, bool by_worker,
                                              const AttemptStory& story, Instant now) {
  Decision decision;
  const FailureRecord* cause =
      by_worker && !incident.records.empty() && incident.records.front().blame == Blame::cause
          ? &incident.records.front()
          : nullptr;
  if (cause != nullptr && cause->do_not_retry) {
    decision.end = "the worker asked not to be started again";
    return decision;
  }
  const FaultRule* rule = cause != nullptr     ? rule_for(*cause, story)
                          : incident.node_lost ? rule_for_lost_node()
                                               : nullptr;
  if (rule != nullptr && rule->action == FaultAction::fail) {
    decision.end = "that ends the job (--on " + rule->text + ")";
    return decision;
  }
  const bool costs = rule != nullptr ? rule->action == FaultAction::restart : by_worker;
  if (costs) {
    decision.end = why_spent(now);
  }
  if (by_worker && !decision.end && story.told) {
    judge_progress(story, decision);
  } else if (by_worker && !decision.end && !costs) {
    note_early_end(!went_on_at_ || now - *went_on_at_ < kEarlyFailure, decision);
    went_on_at_ = now + decision.pause;
  }
  if (costs && !decision.end) {  // a job that ends restarts nothing
    decision.spent = budget_.spend();
    DDP_CHECK(decision.spent, "a restart was left, or the job would end");
    spent_at_.push_back(now);
  }
  DDP_CHECK(!decision.spent || !decision.end, "a job that ends restarts nothing");
  return decision;
}

/// The window first: its reason tells more than that of the whole budget. Restarts that have left
/// the window are forgotten here.
std::optional<std::string> RestartPolicy::why_spent(Instant now) {
  if (rules_.window) {
    while (!spent_at_.empty() && now - spent_at_.front() >= rules_.window->span) {
      spent_at_.pop_front();
    }
    if (spent_at_.size() >= static_cast<std::size_t>(rules_.window->restarts)) {
      return count_text(rules_.window->restarts, "restart") + " within " +
             span_text(rules_.window->span) + (rules_.window->restarts == 1 ? " is" : " are") +
             " spent (--restart-window)";
    }
  }
  if (budget_.used() == budget_.max()) {
    return spent_text(budget_.max());
  }
  return std::nullopt;
}

/// The first attempt that fails so early may have met a passing fault, so it costs no pause.
void RestartPolicy::note_early_end(bool early, Decision& decision) {
  before_first_step_ = early ? before_first_step_ + 1 : 0;
  if (before_first_step_ > 1) {
    const int doublings = std::min(before_first_step_ - 2, 6);
    decision.pause =
        std::min<std::chrono::nanoseconds>(kBackoffFirst * (1 << doublings), kBackoffMax);
  }
  DDP_CHECK(decision.pause <= kBackoffMax, "pauses are bounded");
}

/// Applies only to workers that report progress.
void RestartPolicy::judge_progress(const AttemptStory& story, Decision& decision) {
  DDP_CHECK(story.told, "of others nobody knows how far they came");
  note_early_end(!story.stepped, decision);
  const bool saved = story.saved && (!best_saved_ || *story.saved > *best_saved_);
  const bool stepped = story.steps.value_or(0) > best_steps_;
  // A newer snapshot is progress that lasts, and steps count from there again. Steps are lost work
  // otherwise, and only more of them than ever before show that an attempt got further.
  if (saved) {
    best_saved_ = story.saved;
    best_steps_ = 0;
  } else {
    best_steps_ = std::max(best_steps_, story.steps.value_or(0));
  }
  without_progress_ = saved || stepped ? 0 : without_progress_ + 1;
  if (rules_.no_progress_max > 0 && without_progress_ >= rules_.no_progress_max) {
    decision.end = count_text(without_progress_, "attempt") +
                   " in a row made no progress: no newer snapshot, and no more steps than before "
                   "(--no-progress-limit)";
  }
}

}  // namespace ddprun
