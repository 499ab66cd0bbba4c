// The collectives, over Gloo's connections or the star. Blocking; throws what Gloo throws.
#pragma once

#include <chrono>
#include <memory>

#include "worker_runtime/collectives/collective_run.h"

namespace ddp {

/// Runs one collective (never a message) to its end. `operation.sequence` is its tag, so it must be
/// the same on every rank.
/// `scratch` is kept from one to the next.
void run_on_gloo(const Operation& operation, const std::shared_ptr<gloo::Context>& context,
                 TransferBoard& board, HubChannel& star, ScratchMemory& scratch,
                 std::chrono::milliseconds timeout);

/// True for Gloo's ways to say that a timeout passed; everything else is a broken connection.
bool is_gloo_timeout(const std::exception& error);

}  // namespace ddp
