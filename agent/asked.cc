#include "agent/asked.h"

#include <csignal>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"

namespace ddprun::agent {
namespace {

/// What comes within this time is the same wish: a scheduler signals every process of its step, and
/// so this one and its guardian, which forwards it; a machine that is shut down sends signals of
/// two kinds at once.
constexpr std::chrono::milliseconds kOneWish{500};

/// How many heartbeat timeouts an agent that was asked to stop gives the others to elect
/// a coordinator that it can ask: one passes until all have noticed the loss, then they vote.
constexpr int kElectionBeats = 5;

/// A person who stops an agent that joins waits this long at most. By then a coordinator that has
/// counted the node, but whose answer is still on its way, is asked to end the job for all.
constexpr std::chrono::milliseconds kJoinToStop{1'000};

}  // namespace

/// A scheduler warns all agents, and one of them may have the wish by an order before its own
/// signal comes. That one is not a second signal, which would mean now.
std::optional<Event> Asked::hear(int signal, Instant now, bool hosts) {
  DDP_CHECK(signal > 0, "a signal has a number");
  const auto before = heard_.find(signal);
  if (before != heard_.end() && now - before->second < kOneWish) {
    return {};  // counted from the first: whoever signals without a pause is heard in the end
  }
  heard_[signal] = now;
  const bool leaves = signal == SIGUSR2;
  if (first_ && now - *first_ < kOneWish) {
    return widens(signal) ? std::optional(Event::asked_too) : std::nullopt;
  }
  if (!leaves && !first_) {
    first_ = now;
  }
  const bool warns = (leaves || !wish_of(signal).stops_workers) && !ends();
  if (warns && std::exchange(took_over_, false)) {
    return {};
  }
  // Where this agent leads the job, and its machine is shut down, the whole job saves: it might end
  // without its coordinator, and nothing would be saved then.
  if (warns && std::exchange(goes_alone_, false) && (leaves || !hosts)) {
    return {};
  }
  if (!leaves) {
    return Event::asked;
  }
  return leave_by_ ? Event::leave_again : Event::leave_asked;
}

/// Whether the job ends otherwise by this signal than by those before it.
bool Asked::widens(int signal) const {
  const Wish wish = signal == SIGUSR2 ? Wish{.stops_workers = false} : wish_of(signal);
  DDP_CHECK(first_.has_value(), "a wish is widened that was heard");
  return (wish.stops_workers && !ends()) || (wish.requeues && !requeues_);
}

bool Asked::repeats(int signal) const {
  return signal != SIGTERM && (heard_.contains(signal) || (signal == SIGUSR2 && is_of_job()));
}

void Asked::stop(int signal) {
  // That the node is to leave, too, says nothing about the job.
  if (signal == SIGUSR2) {
    stop_by_ = of_job_ ? stop_by_ : signal;
    return;
  }
  const Wish wish = wish_of(signal);
  // The reason names what counts: after an order to end now, no warning does.
  stop_by_ = ends_ && !wish.stops_workers ? stop_by_ : signal;
  of_job_ = true;
  requeues_ = requeues_ || wish.requeues;
  ends_ = ends_ || wish.stops_workers;
}

/// A machine that goes is shut down in the end, and its service manager or scheduler sends a first
/// signal then: that is no second wish, which would mean now.
std::optional<Event> Asked::noticed(const std::string& notice, NoticeResponse response) {
  DDP_CHECK(notice_.empty(), "the first notice is the wish");
  if (!notice.empty() && response == NoticeResponse::leave) {
    goes_alone_ = true;
    return leave_by_ ? std::nullopt : std::optional(Event::leave_asked);
  }
  took_over_ = !notice.empty();
  notice_ = notice;
  return Event::deadline_came;
}

Wish Asked::wish() const {
  return ends() ? Wish{} : wish_of(stop_by_);
}

/// Workers that SIGTERM alone asked, and that are killed before they have saved, end as scripts do
/// that SIGTERM simply ends. Where none runs, nothing is lost that the other nodes save.
Verdict Asked::verdict_at_once() const {
  const bool requeues = requeues_ || (order_ && wish_of(order_->signal).requeues);
  const bool goes_on = !ends() && (is_last_ || (is_of_job() && (requeues || !interrupts_)));
  return goes_on ? Verdict::preempted : Verdict::stopped;
}

/// Only the end of the job by a signal, or by a deadline, is a wish. A node that leaves or joins,
/// or a worker that failed, lets the job go on; so its next coordinator decides about that anew.
void Asked::ordered(StopHow how, int signal, const std::string& reason) {
  const bool preempts = how == StopHow::preempt && !wish_of(signal).stops_workers;
  const bool ends = how == StopHow::now && signal != 0;
  is_last_ = how == StopHow::preempt && signal == SIGUSR2;
  if (preempts || ends) {
    order_ = Order{signal, reason, ends};
  }
}

bool Asked::lost(Instant now, bool serves) {
  lost_at_ = now;
  const bool takes_over = serves && order_;
  took_over_ = took_over_ || takes_over;
  ends_ = ends();
  return takes_over;
}

bool Asked::ends_at_once() const {
  return lost_at_ && !order_ && ends_;
}

/// Counted from the loss: where the voters can elect a coordinator, they have by then. Schedulers
/// kill half a minute after their warning, so a longer search would lose the exit code. An agent
/// that has followed none yet counts from the wish: nobody has to be elected.
Asked::Instant Asked::search_until(Instant now, std::chrono::milliseconds heartbeat) const {
  if (lost_at_) {
    return *lost_at_ + kElectionBeats * heartbeat;
  }
  return now + (ends() ? kJoinToStop : heartbeat);
}

/// The coordinator's, unless this agent alone was told to end now.
bool Asked::is_by_order() const {
  return order_ && (order_->ends || !ends_);
}

int Asked::reason_signal() const {
  return is_by_order() ? order_->signal : stop_by_;
}

JobSummary Asked::summary(Verdict verdict) const {
  DDP_CHECK(verdict == Verdict::stopped || verdict == Verdict::preempted,
            "what was asked for is an end");
  JobSummary summary;
  summary.verdict = verdict;
  summary.stop_signal = reason_signal();
  summary.reason = reason();
  return summary;
}

std::string Asked::reason() const {
  return is_by_order()     ? order_->reason
         : stop_by_ != 0   ? signal_name(stop_by_) + " was sent to this agent"
         : notice_.empty() ? "its deadline has come"
                           : "this node has a preemption notice (" + notice_ + ")";
}

}  // namespace ddprun::agent
