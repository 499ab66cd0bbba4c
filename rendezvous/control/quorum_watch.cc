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

void QuorumWatch::start() {
  timer_.expires_after(age() ? heartbeat_timeout_ / kLooks : heartbeat_timeout_ / 2);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    const auto self = weak.lock();
    if (!self || failed) {
      return;
    }
    const auto age = self->age();
    if (age && *age >= self->heartbeat_timeout_ - self->heartbeat_timeout_ / 10) {
      self->lost_(*age);
    } else {
      self->start();
    }
  });
}

}  // namespace ddprun
