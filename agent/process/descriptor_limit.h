// DescriptorLimit: how many descriptors a process may have open. A login's soft limit (1,024) is
// for programs that use select(); an agent that hosts the job's endpoint has one open for every
// node and, as the store, for every worker. Its workers get the limit that it was started with.
#pragma once

#include <cstdint>

namespace ddprun {

/// Raises this process's soft limit to the hard one. Returns the soft limit before; 0 where it
/// cannot be told, and nothing was changed.
std::uint64_t raise_descriptor_limit();

/// Lets the kernel make this process's table of descriptors large enough for `count` at once, as
/// far as the hard limit allows. A table that two processes share (guardian.h) is slow to grow:
/// each doubling waits for all processors (an RCU grace period), tens of milliseconds or more, and
/// the agent's loop with it. Eight bytes of kernel memory each.
void reserve_descriptors(std::uint64_t count);

}  // namespace ddprun
