#include "rendezvous/node/join_wait.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

void JoinWait::met(Instant now) {
  met_at_ = now;
  had_world_ = false;
}

std::chrono::milliseconds JoinWait::left(Instant now) const {
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(ends_at() - now),
                  std::chrono::milliseconds(1));
}

void JoinWait::lost(Instant now, std::optional<AttemptNumber> newest) {
  DDP_CHECK(now >= met_at_ && now >= since_, "time never goes back");
  const bool had_world = had_world_ || newest != attempt_ || now - met_at_ >= join_timeout_;
  if (!keeps_ || had_world) {
    since_ = now;
  }
  attempt_ = newest;
  lost_at_ = now;
}

}  // namespace ddprun
