// PeerRpc: one question to another agent, on connections of its own: connects to its addresses in
// quick order, says the preamble and one message at each, and takes the first message that counts
// as the answer. Used for votes, and to say who leads; internal to control.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/credentials.h"
#include "rendezvous/protocol/message.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

struct PeerAnswer {
  std::optional<message::Message> said;
  /// Nothing listens at any of its addresses, and the machines there say so, or another process
  /// does by now: its process is gone.
  bool refused = false;
};

struct PeerQuestion {
  std::vector<std::string> addresses;  ///< numeric, the likeliest first
  std::uint16_t port = 0;
  message::Message said;
  std::chrono::milliseconds patience{};  ///< for each address
  enum class From : std::uint8_t { asked, another, unknown };
  /// Whether an answer is from who is asked: another agent may have one of the addresses. Null:
  /// each is.
  std::function<From(const message::Message&)> from = {};
  /// Shown first, and asked for.
  Credentials credentials = {};
};

using OnPeerAnswer = std::function<void(const PeerAnswer&)>;

/// Calls `done` once, with the answer or with none. The next address is tried when one has failed,
/// or has not answered soon, and earlier tries go on meanwhile. Destroying the returned handle
/// cancels it: `done` is not called.
std::shared_ptr<void> rpc_to_peer(boost::asio::io_context& io, PeerQuestion question,
                                  OnPeerAnswer done);

}  // namespace ddprun
