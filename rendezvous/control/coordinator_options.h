// CoordinatorOptions: what the coordinator of a job is made with.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/control/credentials.h"
#include "rendezvous/membership/expected_hosts.h"
#include "rendezvous/membership/restart_policy.h"
#include "rendezvous/membership/scale_up.h"
#include "rendezvous/membership/takeover_state.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class ConsensusService;
class EventLogFile;

struct CoordinatorOptions {
  std::string job_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};
  std::chrono::milliseconds heartbeat_timeout{3'000};
  /// MASTER_ADDR of every attempt when not empty (static backend, --local-addr). Otherwise each
  /// node is told the address by which it reached this coordinator, and those on this machine the
  /// one that most others are told (master_address.h).
  std::string master_addr;
  /// See MembershipOptions.
  std::string endpoint_note;
  std::string listens_at = {};
  ExpectedHosts expected = {};
  RestartRules restarts = {};
  VoterId self{};
  Term term{1};
  JobInstance instance = {};  ///< of a new job
  std::optional<TakeoverState> inheritance = {};
  std::chrono::nanoseconds waited{};
  /// Where this coordinator is reached: for those that it calls.
  std::vector<std::string> addresses = {};
  std::uint16_t port = 0;
  HostIdentity host = {};
  bool at_first_endpoint = false;  ///< this process listens at the job's first endpoint
  /// A successor's: where the voters of the configurations that it took over are, and the endpoints
  /// of the job at which its agent does not listen.
  std::vector<message::VoterAddress> nodes = {};
  std::vector<Endpoint> other_endpoints = {};
  ScaleUp scale_up = ScaleUp::at_snapshot;
  bool require_same_env = false;  ///< see membership/environment_check.h
  bool by_witness = false;        ///< see MembershipOptions
  bool at_endpoint = true;        ///< see JobTerms
  /// Who connects must show them, and whom this one calls.
  Credentials credentials = {};
  /// The one voter of this job; null: nodes vote.
  std::shared_ptr<ConsensusService> service = {};
  /// Where to write what happens (event_log.h); null: nowhere.
  std::shared_ptr<EventLogFile> event_log = {};
};

}  // namespace ddprun
