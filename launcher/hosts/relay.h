// Relay: ddprun on one of the hosts, between the shell's ddprun (or another relay) and the agents:
// it starts the agent of its own host, and the hosts below it; hands signals down and output up.
// When its stdin ends, the way to the shell is lost: it ends all that it has started at once, as a
// node that loses its power.
#pragma once

namespace ddprun {

/// A relay's life, on the standard streams, in the process that the guardian made. Returns the exit
/// code: 0 once all was told.
int run_relay();

}  // namespace ddprun
