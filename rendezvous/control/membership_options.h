// What a coordinator's options mean for the state machine. Internal to control.
#pragma once

#include "rendezvous/control/coordinator.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {

inline MembershipOptions membership_options(const CoordinatorOptions& options) {
  return {options.job_id,        options.min_nodes,    options.max_nodes,
          options.max_restarts,  options.join_timeout, options.last_call_timeout,
          options.endpoint_note, options.self,         options.term,
          options.restarts,      options.inheritance};
}

}  // namespace ddprun
