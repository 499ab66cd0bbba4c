#include "rendezvous/control/leader_lease.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr int kLooks = 20;  ///< in a heartbeat timeout

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

std::shared_ptr<LeaderLease> LeaderLease::create(boost::asio::io_context& io, Age heartbeat_timeout,
                                                 Source source,
                                                 std::function<void(const std::string&)> lost) {
  return std::shared_ptr<LeaderLease>(
      new LeaderLease(io, heartbeat_timeout, std::move(source), std::move(lost)));
}

LeaderLease::LeaderLease(boost::asio::io_context& io, Age heartbeat_timeout, Source source,
                         std::function<void(const std::string&)> lost)
    : timer_(io),
      heartbeat_timeout_(heartbeat_timeout),
      source_(std::move(source)),
      lost_(std::move(lost)) {}

std::optional<LeaderLease::Age> LeaderLease::age() {
  if (!source_.needed()) {
    return std::nullopt;
  }
  const Instant at = now();
  if (at - looked_at_ > heartbeat_timeout_ / kLooks) {
    looked_at_ = at;
    contact_at_ = std::max(contact_at_, source_.contact(at));
  }
  return at - contact_at_;
}

std::optional<LeaderLease::Age> LeaderLease::advertised_age() {
  const auto told = age();
  return told || !source_.needed_later() ? told : Age(0);
}

bool LeaderLease::restart() {
  looked_at_ = contact_at_ = kNever;
  if (!watches_) {
    return true;
  }
  const auto now_old = age();
  if (now_old && *now_old >= age_max()) {
    lose(*now_old);
    return false;
  }
  start();
  return true;
}

void LeaderLease::lose(Age age) {
  stop();
  lost_("it was not in touch with a majority of the nodes for " +
        std::to_string(std::chrono::round<std::chrono::milliseconds>(age).count()) + " ms");
}

/// Others may be on their way.
bool LeaderLease::outdated_for_long() {
  if (!source_.outdated()) {
    outdated_since_.reset();
    return false;
  }
  outdated_since_ = outdated_since_.value_or(now());
  return now() - *outdated_since_ >= heartbeat_timeout_;
}

void LeaderLease::start() {
  watches_ = true;
  const auto now_old = age();
  // Two nodes and fewer never need one until restart(): an idle job is left to sleep.
  timer_.expires_after(now_old
                           ? std::clamp(age_max() - *now_old, Age(0), heartbeat_timeout_ / kLooks)
                           : heartbeat_timeout_ / (source_.needed_later() ? 2 : 1));
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (!self || failed || !self->watches_) {
      return;
    }
    const auto age = self->age();
    if (age && *age >= self->age_max()) {
      self->lose(*age);
    } else if (self->outdated_for_long()) {
      self->stop();
      self->lost_("nodes know of a newer world, and there is no majority without them");
    } else {
      self->start();
    }
  });
}

}  // namespace ddprun
