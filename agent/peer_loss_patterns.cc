#include "agent/peer_loss_patterns.h"

#include <algorithm>
#include <array>

namespace ddprun {

bool names_lost_peer(std::string_view text) {
  static constexpr std::array<std::string_view, 15> kSigns{
      // Our own runtime, before there is a group.
      "ended while the ranks were gathering",
      // Gloo, of any version: its transport names its own file before what happened.
      "gloo/transport/",
      "Connection closed by peer [",
      "Timed out waiting for ",
      "failed to pass monitoredBarrier",
      // NCCL, and PyTorch's watchdog over it.
      "ncclRemoteError",
      "remote process exited or there was a network error",
      "Watchdog caught collective operation timeout",
      "NCCL communicator was aborted",
      // The store of a host that is gone, or a key that nobody set.
      "failed to recv, got 0 bytes",
      "DistNetworkError",
      "DistStoreError: wait timeout",
      "wait timeout after",
      "Socket Timeout",
      "Connection reset by peer",
  };
  return std::any_of(kSigns.begin(), kSigns.end(), [text](std::string_view sign) {
    return text.find(sign) != std::string_view::npos;
  });
}

}  // namespace ddprun
