#include "rendezvous/control/peer_listener.h"

#include <chrono>
#include <string>
#include <utility>
#include <variant>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/tls_words.h"
#include "rendezvous/node/peer_addresses.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

/// Guests at one time; the oldest makes room. Each is a descriptor of this agent, and an agent that
/// is dropped here tries again.
constexpr std::size_t kGuestsMax = 64;
constexpr std::chrono::milliseconds kQuestionTimeout{5'000};

}  // namespace

std::shared_ptr<PeerListener> PeerListener::open(boost::asio::io_context& io, Fd listener,
                                                 Answer answer, Credentials credentials) {
  auto gate = std::shared_ptr<PeerListener>(new PeerListener(io, std::move(answer)));
  gate->acceptor_ = Acceptor::create(io, std::move(listener), *gate, std::move(credentials));
  gate->acceptor_->start();
  return gate;
}

/// The guests' connections hold a pointer to this object as their handler.
PeerListener::~PeerListener() {
  drop_all();
}

void PeerListener::on_accepted(Channel channel) {
  if (guests_.size() >= kGuestsMax) {
    drop(guests_.begin()->first);
  }
  const std::uint64_t id = ++last_;
  std::string from = net::far_end(channel.socket.get()).host();
  // No heartbeat: one question, one answer.
  ConnectionOptions how;
  how.preamble_timeout = kQuestionTimeout;
  const auto guest = Connection::create(io_, std::move(channel), how, *this, id);
  guests_.emplace(id, Guest{guest, std::move(from)});
  guest->start();
}

/// `answer_` may end this listener, as when a call makes this agent follow or lead elsewhere. So
/// the guest is a copy here, and this object is kept until the answer has gone out.
void PeerListener::on_message(std::uint64_t id, message::Message question) {
  const auto alive = shared_from_this();
  const auto found = guests_.find(id);
  if (closed_ || found == guests_.end()) {
    return;
  }
  const Guest asker = found->second;
  // The caller lists the addresses of all its interfaces. The one by which it came is known to
  // work.
  if (auto* call = std::get_if<message::Follow>(&question)) {
    call->addresses = seen_first(std::move(call->addresses), asker.from);
  }
  const auto answer = answer_(question, asker.from);
  if (!answer) {
    drop(id);
    return;
  }
  asker.connection->send(preamble() + encode(*answer));
  asker.connection->close_after_flush();
}

/// Who has a token or TLS, where this job has none, would try for as long as it may: a closed
/// connection says nothing about the reason.
void PeerListener::on_no_preamble(std::uint64_t id, PreambleCheck check, std::string bytes) {
  const auto found = guests_.find(id);
  if ((check.version != kTokenVersion && !is_tls_hello(bytes)) || found == guests_.end()) {
    drop(id);
    return;
  }
  const TokenRefusal refusal = refusal_of_credentials(check.version, bytes);
  found->second.connection->send(preamble() + encode(message::Rejected{refusal.why, refusal.todo}));
  found->second.connection->close_after_flush();
}

void PeerListener::drop(std::uint64_t id) {
  if (auto guest = guests_.extract(id)) {
    guest.mapped().connection->close();
  }
}

void PeerListener::drop_all() {
  for (auto& [id, guest] : guests_) {
    guest.connection->close();
  }
  guests_.clear();
}

Fd PeerListener::close() {
  closed_ = true;
  drop_all();
  return acceptor_->release();
}

}  // namespace ddprun
