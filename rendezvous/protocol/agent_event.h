// What a message of an agent means to membership. Pure; internal to control.
#pragma once

#include <optional>

#include "rendezvous/membership/event.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

/// None: it says what only others say.
std::optional<Event> agent_event(NodeId node, message::Message said);

}  // namespace ddprun
