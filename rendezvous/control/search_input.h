// SearchInput: what a name service or a listener said, as LeaderSearch takes it. Reads no socket;
// which addresses are this machine's is asked of the system. Internal to control.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rendezvous/node/leader_search.h"

namespace ddprun {

/// Numeric addresses, each once; see search::Resolved.
search::Resolved resolved_to(const std::vector<std::string>& addresses, bool literal);

/// The answer to a hello, a frame that may be anything.
search::Input answer_of(std::uint8_t type, const std::string& payload);

/// Of the first bytes of a listener that does not speak our protocol.
search::Stranger stranger(const std::string& first_bytes);

}  // namespace ddprun
