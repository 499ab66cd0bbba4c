// WaitingText: what people read while the job waits for nodes, and why it was given up. Pure; it
// decides nothing.
#pragma once

#include <string>

#include "rendezvous/membership/absent_nodes.h"
#include "rendezvous/membership/command.h"
#include "rendezvous/membership/job_nodes.h"
#include "rendezvous/membership/leadership.h"
#include "rendezvous/membership/membership_options.h"
#include "rendezvous/membership/start_conditions.h"

namespace ddprun {

/// What these texts are made of, as of `now`.
struct WaitingFacts {
  const MembershipOptions& options;
  const JobNodes& nodes;
  const AbsentNodes& absent;
  const StartConditions& start;
  const Leadership& leadership;
  Instant now{};
  bool job_is_over = false;  ///< the end is waited for, not a world
  bool has_run = false;      ///< a world was handed out here
};

/// To all nodes: who is here, who is missing, for how long. A few rows whatever the size of the
/// job, in time linear in it.
TellWaiting waiting_notice(const WaitingFacts& facts);
/// To this node: why it is in no world. `nodes_here`: with this one.
TellWaiting turn_notice(NodeId node, const MembershipOptions& options, std::size_t nodes_here,
                        std::string note);
/// A node is in no world, though `world_nodes` others run. `why`, a clause: empty where the job
/// wants no more of them.
TellWaiting spare_notice(NodeId node, const MembershipOptions& options, std::size_t nodes_here,
                         int world_nodes, std::string why = {});
/// Why a gathering failed, as a clause: who was here, and as far as can be known, who was not.
std::string missing_text(const WaitingFacts& facts);
/// Why it failed where enough nodes came, but no quorum, as a clause.
std::string quorum_missing_text(const WaitingFacts& facts);
/// The same where the job is given up for it, and what to do.
std::string no_quorum_text(const WaitingFacts& facts);

}  // namespace ddprun
