// Master address: by which of its addresses the workers of all nodes reach the store, which runs
// where the coordinator does. Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// The address that most of these are, any that is not loopback before loopback, the first of
/// equals; 127.0.0.1 when there are none. `reached`: the addresses by which agents reached the
/// coordinator, numeric.
///
/// One text for all nodes where one serves all: scripts compare it, and put it into file names.
/// A node that came by another address is on another network and is told that one instead.
std::string common_address(const std::vector<std::string>& reached);

}  // namespace ddprun
