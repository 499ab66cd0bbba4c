#include "rendezvous/node/unreached_leader.h"

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::chrono::minutes kTellAgain{1};
/// A service names one leader at a time; these are many.
constexpr std::size_t kToldMax = 8;

}  // namespace

/// Two entries of a service may take turns, where leaders come and go: each has a line of its own.
/// Forgetting all of them, where there are many, costs a line too many.
std::optional<std::string> UnreachedLeader::failed(Instant now, const Error& why) {
  DDP_CHECK(now >= failed_at_, "time passes");
  newest_ = {why.what, why.where, "check the network between it and this host"};
  failed_at_ = now;
  const auto told = told_.find(why.where);
  if (told != told_.end() && now - told->second < kTellAgain) {
    return std::nullopt;
  }
  if (told == told_.end() && told_.size() >= kToldMax) {
    told_.clear();
  }
  told_[why.where] = now;
  DDP_CHECK(told_.size() <= kToldMax, "the list is bounded");
  return newest_->sentence();
}

/// Where the newest try is longer ago the service named nobody since, or did not answer: the leader
/// from before is not why, and people would look at the wrong host.
Error UnreachedLeader::verdict(Instant now, std::chrono::milliseconds recently) const {
  DDP_CHECK(now >= failed_at_, "time passes");
  if (newest_ && now - failed_at_ <= recently) {
    return *newest_;
  }
  return trouble_.value_or(
      Error{"no coordinator of the job was reached, and this node could not become it",
            {},
            "look at what the other nodes say"});
}

}  // namespace ddprun
