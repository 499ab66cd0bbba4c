// TlsSelfCheck: whether an agent's own files would do for a peer that has the same ones. Without it
// the peer finds out, and says so on another machine.
#pragma once

#include <memory>

#include "rendezvous/base/result.h"
#include "rendezvous/tls/tls_context.h"

namespace ddprun {

/// One handshake with itself, in memory, by a context of make_mutual(). The Error names the file.
/// What is not valid yet passes: the clock of this machine may be slow, and others' decide.
Result<void> check_with_itself(const std::shared_ptr<const TlsContext>& context);

}  // namespace ddprun
