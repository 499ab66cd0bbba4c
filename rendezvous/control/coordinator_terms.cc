#include "rendezvous/control/coordinator_terms.h"

namespace ddprun {

MembershipOptions membership_options(const CoordinatorOptions& options) {
  return {options.job_id,          options.min_nodes,    options.max_nodes,
          options.max_restarts,    options.join_timeout, options.last_call_timeout,
          options.endpoint_note,   options.self,         options.term,
          options.restarts,        options.inheritance,  options.scale_up,
          options.require_same_env};
}

Chronicle::Job chronicle_job(const CoordinatorOptions& options) {
  Chronicle::Job job{
      options.job_id, {}, options.min_nodes, options.max_nodes, options.max_restarts};
  if (options.inheritance) {
    job.succeeds = options.inheritance->why;
  }
  return job;
}

}  // namespace ddprun
