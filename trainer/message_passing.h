// The classic demo: rank 0 sends a tensor to every other rank, and each says so.
#pragma once

#include "ddp/ddp.h"

namespace ddp {

/// Blocking sends and receives, in rank order. Prints on stdout; throws what the group throws.
void pass_messages(const Context& context);

}  // namespace ddp
