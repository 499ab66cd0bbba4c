// The inside of ddp::Progress.
#pragma once

#include "ddp/ddp.h"
#include "rendezvous/contract/progress_channel.h"

namespace ddp {

struct Progress::Impl {
  ddprun::ProgressChannel channel;
};

}  // namespace ddp
