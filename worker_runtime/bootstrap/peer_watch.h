// PeerWatch: how a process group learns that another rank is gone, and tells of its own end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace ddp {

/// Why the world is broken. `rank` is the one that failed, -1 when nobody knows.
struct PeerLoss {
  int rank = -1;
  std::string reason;
};

class PeerWatch {
 public:
  virtual ~PeerWatch() = default;

  /// `on_loss` is called once, at the first loss, from the watch's thread (or at once when there
  /// has been one). It must not block and not call back. Every subscriber is called: an NCCL group
  /// and the Gloo group below it watch the same peers.
  virtual void subscribe(std::function<void()> on_loss) = 0;
  /// Forgets all subscribers; returns when none of them is running.
  virtual void unsubscribe() = 0;
  /// The first loss; waits up to `patience` for one. A transport often notices a closed connection
  /// a moment before the watch knows whose death it was.
  virtual std::optional<PeerLoss> loss(std::chrono::milliseconds patience) = 0;
  /// Tells every other rank that the world is broken. Once; later calls do nothing.
  virtual void report(const PeerLoss& loss) = 0;
};

}  // namespace ddp
