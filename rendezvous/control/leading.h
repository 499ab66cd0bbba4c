// How an agent comes to lead: what its coordinator is made with, and who may find it. Internal to
// control.
#pragma once

#include <spdlog/logger.h>

#include <memory>

#include "rendezvous/control/coordinator_options.h"
#include "rendezvous/control/follower.h"
#include "rendezvous/control/link_discovery.h"
#include "rendezvous/node/node.h"

namespace ddprun {

class PeerServer;

/// `peer_server`: null in a job without failover. It has settled where this agent listens besides.
CoordinatorOptions leading_options(const FollowerOptions& options, const NodeDescription& node,
                                   BeginLeading order, const PeerServer* peer_server);

/// Where the job begins, so once: a person whose network is no private one reads that it is open.
/// Null where nobody else can join.
std::shared_ptr<LinkAnswerer> open_to_others(boost::asio::io_context& io,
                                             const FollowerOptions& options, spdlog::logger& log);

}  // namespace ddprun
