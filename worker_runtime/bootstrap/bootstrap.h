// MeetingPoint: how the ranks of a world find rank 0, whatever started them.
#pragma once

#include <chrono>
#include <memory>

#include "worker_runtime/bootstrap/peer_monitor.h"
#include "worker_runtime/bootstrap/world.h"

namespace ddp {

/// Returns the lifeline once every rank is on it. Throws StartError: rank 0 cannot be found, or
/// some rank did not come within `timeout`. Not for a world of one.
///
/// by_store: rank 0 publishes its port as key "ddprun/<restart count>/lifeline" (the count because
/// some launchers keep one store for all attempts); its host is the store's, since launchers put
/// the store where rank 0 is. by_port: MASTER_PORT itself. by_file: the port is in a file of
/// mpirun's session directory, written aside and renamed, and removed once all have come, so that a
/// second program under the same mpirun does not read it.
std::unique_ptr<PeerMonitor> meet(const World& world, std::chrono::milliseconds timeout);

}  // namespace ddp
