// What the consensus service does as the one voter of a job: it is in contact with the coordinator
// (service_contact), and keeps its state (service_writer). Plain values.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "rendezvous/node/leader_io.h"
#include "rendezvous/node/node.h"

namespace ddprun {

/// To the coordinator that the service votes for.
struct TellLeader {
  LeaderInput input;
};
/// ServiceContact::viewed() follows.
struct AskWhoLeads {};
/// ServiceWriter::committed() follows.
struct CommitState {
  std::string state;
};
/// Another process leads: ServiceContact::look() tells more.
struct LookAtContact {};

using ServiceVoterAction =
    std::variant<TellLeader, AskWhoLeads, CommitState, LookAtContact, LogLine>;
using ServiceVoterActions = std::vector<ServiceVoterAction>;

}  // namespace ddprun
