// The inside of ddp::Progress, for the parts of the runtime that write to the channel themselves.
#pragma once

#include "ddp/ddp.h"
#include "rendezvous/contract/progress_channel.h"

namespace ddp {

struct Progress::Impl {
  ddprun::ProgressChannel channel;
};

struct ProgressInside {
  /// Null without an agent that asks.
  static ddprun::ProgressChannel* channel(const Progress& progress);
};

}  // namespace ddp
