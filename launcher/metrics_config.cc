#include "launcher/metrics_config.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

namespace ddprun {
namespace {

/// A name could mean several addresses, or another one tomorrow: who may read the metrics must not
/// depend on that.
bool is_numeric(const std::string& address) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return ::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1;
}

}  // namespace

/// An address alone is a mistake: its user believes that something is served.
Result<void> resolve_metrics(const Options& options, JobSpec& job) {
  const bool has_address = std::find(options.given.begin(), options.given.end(),
                                     "metrics-address") != options.given.end();
  if (!options.metrics_port) {
    return has_address ? Error{"without --metrics-port it has no effect",
                               origin(options, "metrics-address"), "add --metrics-port PORT"}
                       : Result<void>();
  }
  if (*options.metrics_port < 0 ||
      *options.metrics_port > std::numeric_limits<std::uint16_t>::max()) {
    return Error{std::to_string(*options.metrics_port) + " is not a port",
                 origin(options, "metrics-port"), "give a number from 1 to 65535, or 0 for any"};
  }
  if (!is_numeric(options.metrics_address)) {
    return Error{"'" + options.metrics_address + "' is not a numeric address",
                 origin(options, "metrics-address"),
                 "give one of this host's, as 10.0.0.7 or ::1; 0.0.0.0 or :: for all of them"};
  }
  job.metrics = {options.metrics_address, static_cast<std::uint16_t>(*options.metrics_port)};
  return {};
}

}  // namespace ddprun
