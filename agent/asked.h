// Asked: what this agent was asked for: by signals, by --deadline, or by a coordinator that ordered
// the end of the job and was lost before it came. It also says how long an agent that has no
// coordinator searches for one to ask. Pure.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "agent/agent_state.h"
#include "agent/notice/notice_source.h"
#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/stop_order.h"

namespace ddprun::agent {

class Asked {
 public:
  using Instant = std::chrono::steady_clock::time_point;

  /// A signal came. None: it is a wish that this agent has already. `hosts`: the coordinator is
  /// this agent's.
  [[nodiscard]] std::optional<Event> hear(int signal, Instant now, bool hosts = false);
  /// Of what is asked by ddpctl: nothing that is not asked for already, of this node or of the
  /// whole job. There only a second stop means now: a script may ask again where it heard no
  /// answer.
  [[nodiscard]] bool repeats(int signal) const;
  /// The wish that counts, the newest but that no warning takes back an order to end now: to end
  /// the job, or this agent, by this signal, or by --deadline (0).
  void stop(int signal);
  /// A notice came that this machine goes (a clause), or --deadline has come (empty). None: it asks
  /// for nothing that this agent was not asked for before.
  [[nodiscard]] std::optional<Event> noticed(const std::string& notice, NoticeResponse response);
  /// The notice that the job is to end for; empty: it is another wish that counts.
  [[nodiscard]] std::string notice() const { return stop_by_ == 0 ? notice_ : ""; }
  [[nodiscard]] int stop_by() const { return stop_by_; }
  /// The second signal ends workers that run, and a coordinator can be told so.
  void interrupts() { interrupts_ = true; }
  /// One of these, or an order, is for the whole job.
  [[nodiscard]] bool is_of_job() const { return of_job_ || order_; }
  /// What all of these ask of the job.
  [[nodiscard]] Wish wish() const;
  /// This signal asked the node to leave the job.
  void leave(int signal) { leave_by_ = signal; }
  [[nodiscard]] const std::optional<int>& leave_by() const { return leave_by_; }
  /// The coordinator ordered the workers to stop.
  void ordered(StopHow how, int signal, const std::string& reason);
  /// An order to stop was for the end of the job.
  [[nodiscard]] bool is_ordered_to_end() const { return order_.has_value(); }
  /// It ordered a new attempt: an end that it ordered before came to nothing.
  void assigned() {
    order_.reset();
    is_last_ = false;
  }

  /// There is a coordinator to ask.
  void followed() { lost_at_.reset(); }
  /// There is none any more. True: it had ordered the end of the job, and this agent, which has no
  /// such wish yet (`serves`), wishes it from here on, by the signal that order_signal() says.
  [[nodiscard]] bool lost(Instant now, bool serves);
  [[nodiscard]] bool has_lost() const { return lost_at_.has_value(); }
  [[nodiscard]] int order_signal() const { return order_ ? order_->signal : 0; }
  /// A person who stops a node that searches wants that at once; a warning is for all nodes, and
  /// so is an order.
  [[nodiscard]] bool ends_at_once() const;
  /// How long a coordinator is searched for that can be asked.
  [[nodiscard]] Instant search_until(Instant now, std::chrono::milliseconds heartbeat) const;
  /// Of an agent that ends without waiting for a save. All others are to end with the same.
  [[nodiscard]] Verdict verdict_at_once() const;
  /// Who asked for the end, as a clause.
  [[nodiscard]] std::string reason() const;
  /// The signal that it names; 0: a deadline.
  [[nodiscard]] int reason_signal() const;
  /// Of a job that this agent ends by itself.
  [[nodiscard]] JobSummary summary(Verdict verdict) const;

 private:
  [[nodiscard]] bool is_by_order() const;
  [[nodiscard]] bool widens(int signal) const;
  [[nodiscard]] bool ends() const { return ends_ || (order_ && order_->ends); }

  struct Order {
    int signal = 0;
    std::string reason;
    bool ends = false;  ///< now: nothing is to be saved for it
  };
  std::map<int, Instant> heard_;  ///< the signals that came, and when each was last a wish
  std::optional<Instant> first_;  ///< when the first of them came that is for the whole job
  int stop_by_ = 0;
  bool of_job_ = false;    ///< a wish is not of this node alone
  bool requeues_ = false;  ///< a wish to end is sent only to what is to be started again
  bool ends_ = false;      ///< a wish is to end now, with nothing saved
  bool interrupts_ = false;
  std::optional<int> leave_by_;
  std::optional<Order> order_;
  bool is_last_ = false;     ///< no node goes on: the order to leave became one for the job
  bool took_over_ = false;   ///< the wish is that of order_, or notice_
  bool goes_alone_ = false;  ///< a notice asked this node to leave, and no warning came since
  std::string notice_;       ///< what the job is to end for; empty: it is no notice
  /// Since when there is no coordinator any more; none while there is one, or was none yet.
  std::optional<Instant> lost_at_;
};

}  // namespace ddprun::agent
