// The files of this agent's certificates among the agents of its job: --tls-ca, --tls-cert and
// --tls-key, or DDPRUN_TLS_CA, _CERT and _KEY (docs/tls.md). They are read by TlsContext.
#pragma once

#include <optional>

#include "launcher/options.h"
#include "rendezvous/base/result.h"
#include "rendezvous/tls/tls_context.h"

namespace ddprun {

/// None: no TLS. An option goes before its variable. An Error where only some of the three are
/// given.
Result<std::optional<TlsFiles>> job_certificates(const Options& options,
                                                 const Environment& environment);

}  // namespace ddprun
