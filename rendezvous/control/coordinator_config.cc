#include "rendezvous/control/coordinator_config.h"

#include "rendezvous/consensus/consensus_service.h"

namespace ddprun {

/// What the state machine decides by. Sockets, addresses and the event log are not its business.
MembershipOptions membership_options(const CoordinatorOptions& options) {
  MembershipOptions job{options.job_id,        options.min_nodes,    options.max_nodes,
                        options.max_restarts,  options.join_timeout, options.last_call_timeout,
                        options.endpoint_note, options.listens_at,   options.expected,
                        options.self,          options.term,         options.restarts,
                        options.inheritance,   options.scale_up,     options.require_same_env,
                        options.at_endpoint,   options.by_witness,   options.heartbeat_timeout};
  job.instance = options.instance;
  job.waited = options.waited;
  return job;
}

/// What the nodes agree on comes from the coordinator before. (A witness may have been started with
/// a shorter --heartbeat-timeout: its fence would end before the old workers do.) What concerns
/// this machine stays its own: addresses, event log, MASTER_ADDR.
CoordinatorOptions successor_options(const CoordinatorOptions& own,
                                     const message::VoterState& known, Term term) {
  CoordinatorOptions led = own;
  // The note explains why a node hosts a new job and waits alone; a successor has others around it.
  led.endpoint_note.clear();
  led.term = term;
  led.nodes = known.nodes;
  led.min_nodes = known.min_nodes;
  led.max_nodes = known.max_nodes;
  led.max_restarts = known.max_restarts;
  led.require_same_env = known.require_same_env;
  led.by_witness = false;  // the options are those of the job
  led.heartbeat_timeout = known.heartbeat_timeout;
  return led;
}

LeaderOptions leader_options(const CoordinatorOptions& options, bool failover) {
  return {membership_options(options),
          options.heartbeat_timeout,
          failover,
          options.addresses,
          options.port,
          options.host,
          options.at_first_endpoint,
          options.nodes,
          options.service ? options.service->name() : std::string()};
}

/// The terms of the job are its own, else it would be refused as a node of another one.
NodeDescription service_witness(const CoordinatorOptions& options) {
  NodeDescription service;
  service.host_name = options.service->name();
  service.job_id = options.job_id;
  service.min_nodes = options.min_nodes;
  service.max_nodes = options.max_nodes;
  service.max_restarts = options.max_restarts;
  service.require_same_env = options.require_same_env;
  service.witness = true;
  service.voter = kServiceVoter;
  return service;
}

EventJson::Job event_job(const CoordinatorOptions& options) {
  EventJson::Job job{
      options.job_id, {}, options.min_nodes, options.max_nodes, options.max_restarts};
  if (options.inheritance) {
    job.succeeds = options.inheritance->why;
  }
  return job;
}

}  // namespace ddprun
