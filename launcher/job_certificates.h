// The files of certificates among the agents of a job, for ddprun and for ddpctl: --tls-ca,
// --tls-cert and --tls-key, or DDPRUN_TLS_CA, _CERT and _KEY (docs/tls.md). TlsContext reads them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

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

/// Where an option comes from, for a message; `option` is without its dashes.
using OptionOrigin = std::function<std::string(std::string_view option)>;
inline std::string command_line(std::string_view option) {
  return "--" + std::string(option);
}

/// None: no TLS. An option goes before its variable. An Error where only some of the three are
/// given.
Result<std::optional<TlsFiles>> job_certificates(const GivenCertificates& options,
                                                 const Environment& environment,
                                                 const OptionOrigin& origin_of = command_line);

}  // namespace ddprun
