#include "rendezvous/control/quorum_watch.h"

#include <algorithm>
#include <utility>

namespace ddprun {
namespace {

constexpr int kLooks = 20;  ///< in a heartbeat timeout

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

std::shared_ptr<QuorumWatch> QuorumWatch::create(boost::asio::io_context& io, Age heartbeat_timeout,
                                                 Source source, std::function<void(Age)> lost) {
  return std::shared_ptr<QuorumWatch>(
      new QuorumWatch(io, heartbeat_timeout, std::move(source), std::move(lost)));
}

QuorumWatch::QuorumWatch(boost::asio::io_context& io, Age heartbeat_timeout, Source source,
                         std::function<void(Age)> lost)
    : timer_(io),
      heartbeat_timeout_(heartbeat_timeout),
      source_(std::move(source)),
      lost_(std::move(lost)) {}

std::optional<QuorumWatch::Age> QuorumWatch::age() {
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

std::optional<QuorumWatch::Age> QuorumWatch::age_told() {
  const auto told = age();
  return told || !source_.needed_later() ? told : Age(0);
}

bool QuorumWatch::begin_anew() {
  looked_at_ = contact_at_ = kNever;
  if (!watches_) {
    return true;
  }
  const auto now_old = age();
  if (now_old && *now_old >= age_max()) {
    stop();
    lost_(*now_old);
    return false;
  }
  start();
  return true;
}

void QuorumWatch::start() {
  watches_ = true;
  const auto now_old = age();
  timer_.expires_after(now_old
                           ? std::clamp(age_max() - *now_old, Age(0), heartbeat_timeout_ / kLooks)
                           : heartbeat_timeout_ / 2);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (!self || failed || !self->watches_) {
      return;
    }
    const auto age = self->age();
    if (age && *age >= self->age_max()) {
      self->stop();
      self->lost_(*age);
    } else {
      self->start();
    }
  });
}

}  // namespace ddprun
