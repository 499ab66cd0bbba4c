#include "rendezvous/membership/gathering.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

Gathering::Gathering(GatheringRules rules) : rules_(rules) {
  DDP_CHECK(rules.min_nodes >= 1 && rules.min_nodes <= rules.max_nodes, "1 <= min <= max nodes");
  DDP_CHECK(rules.join_timeout.count() >= 0, "a timeout is not negative");
  DDP_CHECK(rules.last_call_timeout.count() >= 0, "a timeout is not negative");
}

/// Only a new job has a last call. Later on all live nodes are connected already, and whoever is
/// missing is lost: a pause would help nobody (complaint I-26).
void Gathering::begin(Instant now, bool first, std::chrono::nanoseconds waited) {
  DDP_CHECK(waited.count() >= 0, "nobody has waited for less than no time");
  since_ = now - waited;
  first_ = first;
  last_call_ends_.reset();
  if (first) {
    pace_.begin(now);
  } else {
    pace_.begin(now, kReportAgain);
  }
}

Gathering::Decision Gathering::decide(Instant now, std::size_t nodes, std::size_t will_not_come) {
  DDP_CHECK(now >= since_, "time does not go back");
  const bool enough = nodes >= rules_.min_nodes;
  if (enough && (!first_ || nodes + will_not_come >= rules_.max_nodes)) {
    return Decision::start;
  }
  if (!enough) {
    // A node of the last call was lost. The next time that enough are here, all of it begins anew.
    last_call_ends_.reset();
    return is_hopeless(will_not_come) || now >= join_deadline() ? Decision::give_up
                                                                : Decision::wait;
  }
  if (!last_call_ends_) {
    last_call_ends_ = now + rules_.last_call_timeout;
  }
  // The join timeout does not cut the last call short: whoever set a longer last call meant it.
  return now >= *last_call_ends_ ? Decision::start : Decision::wait;
}

/// The last call replaces the join timeout: once min nodes are here, the job does not give up.
Instant Gathering::next_deadline() const {
  return std::min(pace_.next(), last_call_ends_.value_or(join_deadline()));
}

}  // namespace ddprun
