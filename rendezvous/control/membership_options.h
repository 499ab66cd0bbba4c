// What of a coordinator's options its state machine works with. Internal to coordinator.
#pragma once

#include "rendezvous/control/coordinator.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

inline MembershipOptions membership_options(const CoordinatorOptions& options) {
  return {options.job_id,        options.min_nodes,    options.max_nodes,
          options.max_restarts,  options.join_timeout, options.last_call_timeout,
          options.endpoint_note, options.self,         options.term,
          options.restarts,      options.inheritance,  options.require_same_env};
}

}  // namespace ddprun
