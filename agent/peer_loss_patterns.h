// VictimSigns: whether what a worker said last shows that it failed because another one was gone.
// Pure.
#pragma once

#include <string_view>

namespace ddprun {

/// `text` is an exception's message or the last line of stderr. True for what PyTorch, Gloo, NCCL
/// and the store's client say when a peer closed its connection, did not come to a collective in
/// time, or took the store with it. Such a worker is a victim where any other failed without these
/// signs; alone they prove nothing (the rank that hangs says nothing at all), so they only order
/// records.
bool names_lost_peer(std::string_view text);

}  // namespace ddprun
