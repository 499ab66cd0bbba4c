#include "rendezvous/control/peer_listener.h"

#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "rendezvous/node/peer_addresses.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// Guests at one time; the oldest makes room.
constexpr std::size_t kGuestsMax = 64;
constexpr std::chrono::milliseconds kQuestionTimeout{5'000};

}  // namespace

std::shared_ptr<PeerListener> PeerListener::open(boost::asio::io_context& io, Fd listener,
                                                 Answer answer) {
  auto gate = std::shared_ptr<PeerListener>(new PeerListener(io, std::move(answer)));
  gate->acceptor_ = Acceptor::create(
      io, std::move(listener), [raw = gate.get()](Fd socket) { raw->accept(std::move(socket)); });
  gate->acceptor_->start();
  return gate;
}

void PeerListener::accept(Fd socket) {
  if (guests_.size() >= kGuestsMax) {
    drop(guests_.begin()->first);
  }
  const std::uint64_t id = ++last_;
  const std::string from = peer_address_of(socket.get());
  ConnectionOptions how;
  how.preamble_timeout = kQuestionTimeout;
  const auto guest =
      Connection::create(io_, std::move(socket), how,
                         {[this, id, from](message::Message question) {
                            const auto alive = shared_from_this();
                            const auto found = guests_.find(id);
                            if (closed_ || found == guests_.end()) {
                              return;
                            }
                            const auto asker = found->second;
                            if (auto* call = std::get_if<message::Follow>(&question)) {
                              call->addresses = seen_first(std::move(call->addresses), from);
                            }
                            const auto answer = answer_(question, from);
                            if (!answer) {
                              drop(id);
                              return;
                            }
                            asker->send(preamble() + encode(*answer));
                            asker->close_after_flush();
                          },
                          [this, id](const PreambleCheck&, const std::string&) { drop(id); },
                          [this, id](const CloseReason&) { drop(id); }});
  guests_.emplace(id, guest);
  guest->start();
}

void PeerListener::drop(std::uint64_t id) {
  if (auto guest = guests_.extract(id)) {
    guest.mapped()->close();
  }
}

Fd PeerListener::close() {
  closed_ = true;
  for (auto& [id, guest] : guests_) {
    guest->close();
  }
  guests_.clear();
  return acceptor_->release();
}

}  // namespace ddprun
