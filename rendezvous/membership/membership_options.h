// MembershipOptions: what a coordinator is given for its job. Plain values.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/expected_hosts.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/membership/scale_up.h"
#include "rendezvous/membership/takeover_state.h"

namespace ddprun {

struct MembershipOptions {
  std::string job_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;  ///< wins over that of `restarts`
  std::chrono::nanoseconds join_timeout = std::chrono::seconds(600);
  std::chrono::nanoseconds last_call_timeout = std::chrono::seconds(30);
  /// A sentence about the endpoint, told while nobody but its host is here: why that may be.
  std::string endpoint_note = {};
  /// Where others reach this endpoint, for people: "port 29400 of 10.0.0.1 (eth0)". Empty: only
  /// agents of this machine do.
  std::string listens_at = {};
  /// The hosts that a scheduler has started the job's agents on, and where it says so; may be
  /// empty.
  ExpectedHosts expected = {};
  /// Of the agent that hosts this coordinator; 0: the job has no failover.
  VoterId self = {};
  Term term{1};
  RestartRules restarts = {};
  /// Of a successor.
  std::optional<TakeoverState> inheritance = {};
  ScaleUp scale_up = ScaleUp::at_snapshot;
  bool require_same_env = false;  ///< see environment_check.h
  bool at_endpoint = true;        ///< see JobTerms
  bool by_witness = false;        ///< a witness hosts this coordinator, which begins the job
  std::chrono::nanoseconds heartbeat_timeout = {};
  std::size_t voters_max = kVotersMax;  ///< see leadership.h
  /// Of the join timeout so much is over: the nodes have waited for a world under others.
  std::chrono::nanoseconds waited{};
  /// Of a new job; a successor's is inherited.
  JobInstance instance{};
};

}  // namespace ddprun
