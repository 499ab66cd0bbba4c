#include "rendezvous/control/herald.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/control/peer_call.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kIntervalFirst{500};
constexpr std::chrono::milliseconds kIntervalMax{5'000};

}  // namespace

std::shared_ptr<Herald> Herald::send(boost::asio::io_context& io, message::Follow news,
                                     std::chrono::milliseconds patience,
                                     std::function<std::vector<message::ElectorAddress>()> absent) {
  auto herald =
      std::shared_ptr<Herald>(new Herald(io, std::move(news), patience, std::move(absent)));
  herald->tell_all();
  return herald;
}

Herald::Herald(boost::asio::io_context& io, message::Follow news,
               std::chrono::milliseconds patience,
               std::function<std::vector<message::ElectorAddress>()> absent)
    : io_(io),
      news_(std::move(news)),
      patience_(patience),
      absent_(std::move(absent)),
      timer_(io),
      interval_(kIntervalFirst) {}

void Herald::tell_all() {
  for (const message::ElectorAddress& one : absent_()) {
    if (calls_.contains(one.elector)) {
      continue;
    }
    calls_[one.elector] = call_peer(
        io_, one.addresses, one.port, news_, patience_,
        [weak = weak_from_this(), id = one.elector](const std::optional<message::Message>&) {
          if (const auto self = weak.lock()) {
            // Not here: the call that answers would end inside its own answer.
            boost::asio::post(self->io_, [call = std::move(self->calls_[id])] {});
            self->calls_.erase(id);
          }
        });
  }
  timer_.expires_after(interval_);
  interval_ = std::min(2 * interval_, kIntervalMax);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) {
      self->tell_all();
    }
  });
}

}  // namespace ddprun
