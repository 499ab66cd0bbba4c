// KubernetesService: a Lease object of Kubernetes as the consensus service of one job
// (docs/kubernetes.md). LeaseKeeper decides what a question comes to, LeaseExchange which requests
// that needs; this is the thin shell of both, beside the client.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "rendezvous/consensus/consensus_service.h"
#include "rendezvous/consensus/kubernetes_client.h"

namespace ddprun {

struct KubernetesServiceOptions {
  KubernetesAccess access;
  std::string job_id;
  std::string host_name;  ///< of this agent: a pod's is its name
  /// The leader's lease is longer by kServiceAbsence.
  std::chrono::milliseconds heartbeat_timeout{3'000};
  /// How long the state of a job is kept that nobody leads.
  std::chrono::milliseconds join_timeout{600'000};
};

std::unique_ptr<ConsensusService> make_kubernetes_service(boost::asio::io_context& io,
                                                          KubernetesServiceOptions options);

}  // namespace ddprun
