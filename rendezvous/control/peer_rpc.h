// PeerRpc: one question to another agent, on a connection of its own: connects to one of its
// addresses after the other, says the preamble and one message, and takes one message as the
// answer. Used for votes, and to say who leads; internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/protocol/message.h"

namespace ddprun {

struct PeerAnswer {
  std::optional<message::Message> said;
  /// Nothing listens at any of its addresses, and the machines there say so: its process is gone.
  bool refused = false;
};

/// Calls `done` once, with the answer or with none, within about `patience` for each address.
/// Destroying the returned handle cancels it: `done` is not called.
std::shared_ptr<void> rpc_to_peer(boost::asio::io_context& io, std::vector<std::string> addresses,
                                  std::uint16_t port, const message::Message& question,
                                  std::chrono::milliseconds patience,
                                  std::function<void(const PeerAnswer&)> done);

}  // namespace ddprun
