// The files of certificates among the agents of a job, for ddprun and for ddpctl: --tls-ca,
// --tls-cert and --tls-key, or DDPRUN_TLS_CA, _CERT and _KEY (docs/tls.md). TlsContext reads them.
#pragma once

#include <optional>
#include <string>

#include "launcher/options.h"
#include "rendezvous/base/result.h"
#include "rendezvous/tls/tls_context.h"

namespace ddprun {

/// By options; none: not given.
struct GivenCertificates {
  std::optional<std::string> ca = {};
  std::optional<std::string> certificate = {};
  std::optional<std::string> key = {};
};

/// None: no TLS. An option goes before its variable. An Error where only some of the three are
/// given.
Result<std::optional<TlsFiles>> job_certificates(const GivenCertificates& options,
                                                 const Environment& environment);

}  // namespace ddprun
