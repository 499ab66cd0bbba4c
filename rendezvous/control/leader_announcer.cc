#include "rendezvous/control/leader_announcer.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/control/peer_rpc.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kIntervalFirst{500};
constexpr std::chrono::milliseconds kIntervalMax{5'000};

}  // namespace

std::shared_ptr<LeaderAnnouncer> LeaderAnnouncer::send(boost::asio::io_context& io,
                                                       AnnouncementSource source,
                                                       std::chrono::milliseconds patience) {
  auto announcer =
      std::shared_ptr<LeaderAnnouncer>(new LeaderAnnouncer(io, std::move(source), patience));
  announcer->announce();
  return announcer;
}

LeaderAnnouncer::LeaderAnnouncer(boost::asio::io_context& io, AnnouncementSource source,
                                 std::chrono::milliseconds patience)
    : io_(io),
      source_(std::move(source)),
      patience_(patience),
      timer_(io),
      interval_(kIntervalFirst) {}

void LeaderAnnouncer::announce() {
  const message::Follow news = source_.news();
  for (const message::VoterAddress& one : source_.absent()) {
    if (calls_.contains(one.voter)) {
      continue;
    }
    calls_[one.voter] = rpc_to_peer(io_, one.addresses, one.port, news, patience_,
                                    [weak = weak_from_this(), one](const PeerAnswer& answer) {
                                      if (const auto self = weak.lock()) {
                                        self->on_answer(one, answer.said);
                                      }
                                    });
  }
  timer_.expires_after(interval_);
  interval_ = std::min(2 * interval_, kIntervalMax);
  timer_.async_wait([weak = weak_from_this()](boost::system::error_code failed) {
    if (const auto self = weak.lock(); self && !failed) {
      self->announce();
    }
  });
}

void LeaderAnnouncer::on_answer(const message::VoterAddress& from,
                                const std::optional<message::Message>& said) {
  // Not here: the call that answers would end inside its own answer.
  boost::asio::post(io_, [call = std::move(calls_[from.voter])] {});
  calls_.erase(from.voter);
  const auto* moved = said ? std::get_if<message::Moved>(&*said) : nullptr;
  if (moved != nullptr && moved->term > source_.news().term) {
    message::Follow other = source_.news();
    other.term = moved->term;
    other.addresses = from.addresses;
    other.port = from.port;
    source_.outranked(other);
  }
}

}  // namespace ddprun
