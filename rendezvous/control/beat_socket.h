// Socket options of the connections that carry beats, set by both ends.
#pragma once

namespace ddprun {

/// Programs that are started do not get it (FD_CLOEXEC). Messages leave at once (TCP_NODELAY). What
/// a broken link lost is sent again every round trip plus 0.2 s, for the first six times
/// (TCP_THIN_LINEAR_TIMEOUTS, tcp(7)'s "thin streams"): doubled waits would keep a beat back for
/// seconds after the link is whole again, and the peer would be given up for a silence that was
/// ours. A kernel that lacks an option goes without it.
void prepare_beat_socket(int fd);

}  // namespace ddprun
