// What Kubernetes' API server says to a question about one Lease, and what a person reads of it.
// Pure. Statuses and their bodies: kubernetes.io/docs/reference/using-api/api-concepts and
// apimachinery's Status.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/consensus/kubernetes_lease.h"
#include "rendezvous/http/http_message.h"

namespace ddprun {

/// RBAC's words for GET, POST and PUT.
enum class LeaseVerb { get, create, update };
const char* to_text(LeaseVerb verb);

struct LeaseReply {
  enum class Kind {
    done,      ///< `lease` is the object now
    absent,    ///< there is no such Lease
    conflict,  ///< somebody has written it meanwhile: it is to be read again
    busy,      ///< to be asked again after `retry_after`
    refused,   ///< it was not done, and would not be if it were asked again at once
    unclear,   ///< whether it was done is not known
  };
  Kind kind{};
  std::optional<JobLease> lease = {};
  std::chrono::seconds retry_after{};
  Error why = {};
};

/// Who was asked, for sentences.
struct KubernetesAsked {
  std::string server;      ///< "https://10.96.0.1:443"
  std::string name_space;  ///< in which the Leases are
  std::string lease;       ///< its name
  std::string token_file;  ///< empty: no token was sent
};

LeaseReply lease_reply(LeaseVerb verb, const HttpReply& said, const KubernetesAsked& asked);
/// No answer came.
LeaseReply no_lease_reply(const Error& why, const KubernetesAsked& asked);

}  // namespace ddprun
