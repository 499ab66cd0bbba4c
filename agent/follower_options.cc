#include "agent/follower_options.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <string>
#include <utility>

#include "agent/host/compared_options.h"
#include "agent/host/compared_variables.h"
#include "agent/host/environment_facts.h"
#include "agent/host/host.h"
#include "agent/process/worker_environment.h"
#include "rendezvous/consensus/etcd_service.h"
#include "rendezvous/consensus/kubernetes_service.h"

namespace ddprun {

NodeEnvironment compared_facts(const JobSpec& spec) {
  if (spec.max_nodes <= 1 || spec.witness) {
    return {};
  }
  NodeEnvironment facts = environment_facts(spec.program, own_environment(), spec.same_env_ignore);
  NodeEnvironment options = compared_options(spec);
  facts.insert(facts.end(), std::make_move_iterator(options.begin()),
               std::make_move_iterator(options.end()));
  return facts;
}

NodeDescription describe(const JobSpec& spec, const NodeEnvironment& environment) {
  NodeDescription node;
  node.host_name = host_name();
  node.agent_pid = static_cast<std::int32_t>(::getpid());
  node.local_world_size = spec.local_world_size;
  node.role = spec.role;
  node.node_rank = spec.node_rank;
  node.order_hint = spec.order_hint;
  node.job_id = spec.job_id;
  node.min_nodes = spec.min_nodes;
  node.max_nodes = spec.max_nodes;
  node.max_restarts = spec.max_restarts;
  node.program = spec.program.display_name;
  node.witness = spec.witness;
  // 16 bytes for each node. The facts follow only where digests differ
  // (docs/environment-agreement.md).
  node.environment = digest_of(environment);
  node.require_same_env = spec.require_same_env;
  return node;
}

/// Static ranks name their coordinator for good, and a single node has no other to follow.
bool outlives_its_coordinator(const JobSpec& spec) {
  return spec.backend == RendezvousBackend::etcd || spec.backend == RendezvousBackend::kubernetes ||
         (spec.backend == RendezvousBackend::c10d && (spec.max_nodes > 1 || spec.witness));
}

/// Null: the nodes decide.
std::unique_ptr<ConsensusService> consensus_service(boost::asio::io_context& io,
                                                    const JobSpec& spec,
                                                    const FollowerOptions& options) {
  if (spec.backend == RendezvousBackend::etcd) {
    return make_etcd_service(
        io, {{options.endpoints, spec.etcd_user, spec.etcd_password, spec.service_tls},
             spec.job_id,
             spec.heartbeat_timeout,
             spec.join_timeout});
  }
  if (spec.backend == RendezvousBackend::kubernetes) {
    return make_kubernetes_service(io, {{spec.endpoint, spec.kubernetes_namespace,
                                         spec.kubernetes_token_file, spec.service_tls},
                                        spec.job_id,
                                        options.node.host_name,
                                        spec.heartbeat_timeout,
                                        spec.join_timeout});
  }
  return nullptr;
}

FollowerOptions follower_options(boost::asio::io_context& io, const JobSpec& spec,
                                 std::shared_ptr<EventLogFile> event_log) {
  FollowerOptions options;
  options.environment = compared_facts(spec);
  options.node = describe(spec, options.environment);
  // The first is where a new job begins; at the others a running one may be found.
  options.endpoints = {spec.endpoint};
  options.endpoints.insert(options.endpoints.end(), spec.more_endpoints.begin(),
                           spec.more_endpoints.end());
  options.is_host = spec.is_host;
  options.join_timeout = spec.join_timeout;
  options.heartbeat_timeout = spec.heartbeat_timeout;
  options.failover = outlives_its_coordinator(spec);
  // The endpoints are the service's then. Agents are found by what they enter there, and listen
  // anywhere.
  if (auto service = consensus_service(io, spec, options)) {
    options.service = std::move(service);
    options.endpoints = {{"0.0.0.0", 0}};
  }
  // On every node, since each may come to lead.
  CoordinatorOptions& led = options.coordinator;
  led.job_id = spec.job_id;
  led.min_nodes = spec.min_nodes;
  led.max_nodes = spec.max_nodes;
  led.max_restarts = spec.max_restarts;
  led.restarts = spec.restarts;
  led.require_same_env = spec.require_same_env;
  led.by_witness = spec.witness;
  led.credentials = spec.credentials;
  led.expected = spec.expected;
  led.event_log = std::move(event_log);
  led.scale_up = spec.scale_up;
  led.join_timeout = spec.join_timeout;
  led.last_call_timeout = spec.last_call_timeout;
  led.heartbeat_timeout = spec.heartbeat_timeout;
  // With static ranks the user's own name for the host, as torchrun passes it on. Else
  // --local-addr, or an address that the nodes have seen.
  const bool is_static = spec.backend == RendezvousBackend::static_ranks;
  led.master_addr = is_static ? spec.endpoint.host : spec.local_addr;
  return options;
}

std::vector<int> signals_for(const JobSpec& spec) {
  std::vector<int> numbers = spec.signals_to_handle;
  for (const int number : {SIGUSR1, SIGUSR2}) {
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

}  // namespace ddprun
