// LeaderCalls: a leader that took over tells who does not follow it that it leads: the voters that
// are away (leader_announcer.h), and whoever is at the endpoints of the job (endpoint_calls.h).
// Internal to control.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/control/coordinator.h"
#include "rendezvous/control/endpoint_calls.h"
#include "rendezvous/control/leader_announcer.h"

namespace ddprun {

struct LeaderCalls {
  std::shared_ptr<LeaderAnnouncer> to_voters;
  std::shared_ptr<EndpointCalls> to_endpoints;

  /// `leader` and `node`, where it is reached, outlive the calls. `endpoints` are those where it
  /// does not listen. `outranked` is called where there turns out to be a leader of a later term.
  static LeaderCalls begin(boost::asio::io_context& io, const Coordinator& leader,
                           const NodeDescription& node, const message::JobOptions& job,
                           std::vector<Endpoint> endpoints,
                           std::function<void(const message::Follow&)> outranked,
                           std::chrono::milliseconds patience);
};

}  // namespace ddprun
