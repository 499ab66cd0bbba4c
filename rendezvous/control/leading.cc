#include "rendezvous/control/leading.h"

#include <fmt/core.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "rendezvous/base/network_interfaces.h"
#include "rendezvous/control/coordinator_config.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/own_host.h"
#include "rendezvous/control/peer_server.h"

namespace ddprun {

/// A successor goes on by the terms of its job, and calls at the endpoints where it does not listen
/// itself: a node may have been started there anew. With a service nodes are not sought there.
CoordinatorOptions leading_options(const FollowerOptions& options, const NodeDescription& node,
                                   BeginLeading order, const PeerServer* peer_server) {
  CoordinatorOptions led = options.coordinator;
  led.term = order.term;
  if (order.takeover) {
    led = successor_options(led, order.takeover->known, order.takeover->term);
    led.inheritance = std::move(order.takeover->state);
  }
  led.self = node.voter;
  led.instance = order.instance;
  led.waited = order.waited;
  led.service = options.service;
  led.at_endpoint = peer_server == nullptr || peer_server->at_endpoint();
  led.at_first_endpoint = peer_server != nullptr && peer_server->at_first_endpoint();
  // Where another process of this host begins later, the kernel is its witness that this one died.
  led.host = own_host();
  led.addresses = node.addresses;
  led.port = node.port;
  // For people who look why nobody comes.
  if (!is_loopback_host(options.endpoints.front().host)) {
    led.listens_at = fmt::format("port {} of {}", led.port, addresses_text(interface_addresses()));
  }
  if (order.takeover && !options.service) {
    led.other_endpoints = peer_server->other_endpoints();
  }
  return led;
}

/// On a loopback address only users of this machine can join, who can do more than that.
std::shared_ptr<LinkAnswerer> open_to_others(boost::asio::io_context& io,
                                             const FollowerOptions& options, spdlog::logger& log) {
  const Endpoint& first = options.endpoints.front();
  if (options.coordinator.max_nodes <= 1 || is_loopback_host(first.host)) {
    return nullptr;
  }
  if (!options.coordinator.credentials.any()) {
    log.warn("whoever reaches {} can join this job; --job-token-file keeps others out",
             to_text(first));
  }
  auto answerer =
      LinkAnswerer::open(io, {options.coordinator.credentials.token, options.node.job_id, first});
  if (!answerer) {
    log.info(
        "UDP port {} is taken by another program: nodes that cannot reach this one by the name {} "
        "cannot search for it on their networks",
        first.port, first.host);
  }
  return answerer;
}

}  // namespace ddprun
