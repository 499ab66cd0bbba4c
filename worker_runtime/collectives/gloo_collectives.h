// The collectives, over Gloo's connections or the star. Blocking; throws what Gloo throws.
#pragma once

#include <chrono>
#include <memory>

#include "worker_runtime/bootstrap/hub_channel.h"
#include "worker_runtime/collectives/gloo_transfer.h"
#include "worker_runtime/collectives/operation.h"

namespace ddp {

/// Runs one collective (never a message) to its end. `operation.sequence` is its tag, so it must be
/// the same on every rank.
void run_on_gloo(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                 TransferBoard& board, HubChannel& star, std::chrono::milliseconds timeout);

/// True for Gloo's ways to say that a timeout passed; everything else is a broken connection.
bool is_gloo_timeout(const std::exception& error);

}  // namespace ddp
