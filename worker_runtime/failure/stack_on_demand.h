// StackOnDemand: a thread of this process that gets the signal named in the progress page writes
// its own stack behind that page, and goes on. The agent asks one thread after the other, when the
// job hangs. No thread asks by itself.
#pragma once

#include "rendezvous/contract/progress_channel.h"

namespace ddp {

/// One at a time: signal handlers belong to the process. Where the signal is taken already, or the
/// channel has no room, it does nothing, and the page says so.
class StackOnDemand {
 public:
  /// `channel` outlives it.
  explicit StackOnDemand(ddprun::ProgressChannel& channel);
  ~StackOnDemand();
  StackOnDemand(const StackOnDemand&) = delete;
  StackOnDemand& operator=(const StackOnDemand&) = delete;

 private:
  bool installed_ = false;
};

}  // namespace ddp
