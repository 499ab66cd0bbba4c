// What a coordinator commits to a consensus service, read again: a VoterState, and what it told its
// voter since then. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "rendezvous/base/result.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

/// None of an empty text. The error is of bytes that no coordinator of this version wrote.
Result<std::optional<message::VoterState>> committed_state(std::string_view frames);

}  // namespace ddprun
