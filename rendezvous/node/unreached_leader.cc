#include "rendezvous/node/unreached_leader.h"

#include "rendezvous/base/check.h"

namespace ddprun {
/// Two entries of a service may take turns, where leaders come and go: each has a line of its own.
std::optional<std::string> UnreachedLeader::failed(Instant now, const Error& why) {
  DDP_CHECK(now >= failed_at_, "time passes");
  newest_ = {why.what, why.where, "check the network between it and this host"};
  failed_at_ = now;
  return told_.tells(now, why.where) ? std::optional(newest_->sentence()) : std::nullopt;
}

/// Where the newest try is longer ago the service named nobody since, or did not answer: the leader
/// from before is not why, and people would look at the wrong host. A node that the service does
/// not let lead could have led in place of one that is gone.
Error UnreachedLeader::verdict(Instant now, std::chrono::milliseconds recently) const {
  DDP_CHECK(now >= failed_at_, "time passes");
  if (newest_ && now - failed_at_ <= recently) {
    return trouble_ ? Error{newest_->what + "; and this node could not lead: " + trouble_->what,
                            newest_->where, trouble_->todo}
                    : *newest_;
  }
  return trouble_.value_or(
      Error{"no coordinator of the job was reached, and this node could not become it",
            {},
            "look at the lines before this one, and at what the other nodes say"});
}

}  // namespace ddprun
