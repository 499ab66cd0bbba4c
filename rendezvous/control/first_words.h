// What the first bytes and the first message on a connection tell of who is there. Internal to
// control.
#pragma once

#include <string>
#include <variant>

#include "rendezvous/protocol/message.h"

namespace ddprun {

/// First words of an agent; it gets a preamble before the answer.
inline bool is_greeting(const message::Message& said) {
  return std::holds_alternative<message::Hello>(said) ||
         std::holds_alternative<message::Follow>(said) ||
         std::holds_alternative<message::AskVote>(said);
}

/// A store client may come to the endpoint (static backend). The types of the store's protocol are
/// up to 8, and our own hello begins with 'D'. One that says nothing may be a client as well.
inline bool may_be_store_client(const std::string& first_bytes) {
  constexpr unsigned char kStoreFirstByteMax = 0x08;
  return first_bytes.empty() ||
         static_cast<unsigned char>(first_bytes.front()) <= kStoreFirstByteMax;
}

}  // namespace ddprun
