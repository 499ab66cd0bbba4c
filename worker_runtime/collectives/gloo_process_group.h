// GlooProcessGroup: the operations on CPU tensors, between processes on any hosts.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "ddp/process_group.h"
#include "rendezvous/base/fd.h"
#include "worker_runtime/bootstrap/peer_watch.h"
#include "worker_runtime/collectives/gloo_context.h"

namespace ddp {

/// Takes a connected mesh and star. `watch` outlives the group. Collectives run one after the
/// other, on a thread of the group's own or, where nothing is before it, on that of a caller who
/// waits; messages are posted at once and awaited by whoever waits for them.
std::unique_ptr<ProcessGroup> make_gloo_process_group(std::unique_ptr<GlooContext> mesh,
                                                      std::vector<ddprun::Fd> star, int rank,
                                                      int world_size, PeerWatch& watch,
                                                      std::chrono::milliseconds timeout);

}  // namespace ddp
