// GlooProcessGroup: the operations on CPU tensors, between processes on any hosts.
#pragma once

#include <chrono>
#include <memory>

#include "ddp/process_group.h"
#include "worker_runtime/gloo_mesh.h"
#include "worker_runtime/peer_watch.h"

namespace ddp {

/// Takes a connected mesh. `watch` outlives the group. Collectives run one after the other on a
/// thread of the group's own; messages are posted at once and awaited by whoever waits for them.
std::unique_ptr<ProcessGroup> make_gloo_process_group(std::unique_ptr<GlooMesh> mesh, int rank,
                                                      int world_size, PeerWatch& watch,
                                                      std::chrono::milliseconds timeout);

}  // namespace ddp
