// FanOut: how the hosts below a process are split among those that it starts itself. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "launcher/hosts/relay_message.h"

namespace ddprun {

/// At most `fan_out` (1 or more) groups in the order of the hosts, none empty, whose sizes differ
/// by one at most. The first host of a group starts the others of it, by the same rule.
std::vector<std::vector<RelayHost>> split_hosts(std::span<const RelayHost> hosts,
                                                std::uint32_t fan_out);

}  // namespace ddprun
