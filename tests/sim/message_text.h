// MessageText: what a message says, in a few words, for those who read a trace.
#pragma once

#include <string>

#include "rendezvous/protocol/message.h"

namespace ddprun::sim {

std::string to_text(const message::Message& message);

/// "2.1": the first configuration of term 2.
std::string to_text(ConfigurationNumber configuration);

}  // namespace ddprun::sim
