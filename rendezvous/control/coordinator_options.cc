#include "rendezvous/control/coordinator_options.h"

#include "rendezvous/membership/membership.h"

namespace ddprun {

MembershipOptions membership_options(const CoordinatorOptions& options) {
  return {options.job_id,        options.min_nodes,    options.max_nodes,
          options.max_restarts,  options.join_timeout, options.last_call_timeout,
          options.endpoint_note, options.self,         options.term,
          options.restarts,      options.inheritance,  options.scale_up};
}

}  // namespace ddprun
