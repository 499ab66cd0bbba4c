// How the Lease of a job is called in its namespace: a DNS subdomain (RFC 1123), as Kubernetes
// wants names of objects to be. Pure.
#pragma once

#include <string>

namespace ddprun {

/// "ddprun-run7". An id that is no DNS label keeps what can be read of it, and has a hash behind a
/// dot, which no label has: "ddprun-123456-0.1f0c..." for "123456.0". So no two jobs share a name.
std::string lease_name(const std::string& job_id);

}  // namespace ddprun
