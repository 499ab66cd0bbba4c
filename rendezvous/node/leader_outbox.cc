#include "rendezvous/node/leader_outbox.h"

#include <algorithm>
#include <iterator>

#include "rendezvous/base/check.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

using Addresses = std::vector<VoterAddress>;

Addresses chunk_from(const Addresses& nodes, Addresses::const_iterator from) {
  const auto size = std::min<std::ptrdiff_t>(nodes.end() - from, kNodesInMessageMax);
  return {from, from + size};
}

}  // namespace

void LeaderOutbox::send(std::vector<NodeId> nodes, message::Message message) {
  add(SendMessage{std::move(nodes), std::make_shared<message::Message>(std::move(message))});
}

void LeaderOutbox::send_away(NodeId node, message::Message message) {
  add(SendAndClose{node, std::make_shared<message::Message>(std::move(message))});
}

/// A voter that has received only the first message may be elected. So that one names all voters,
/// and it is the one that is acknowledged.
void LeaderOutbox::replicate(const Replicate& order, std::vector<VoterAddress> nodes, Instant now) {
  DDP_CHECK(order.so_far != nullptr, "a state comes with the story of the job");
  // The list limits of the wire. The simulation encodes nothing, so it relies on these checks.
  DDP_CHECK(order.replicated.before.size() <= kBeforeMax, "a state names a few configurations");
  for (const Configuration* one : order.replicated.configurations()) {
    DDP_CHECK(one->voters.size() <= kVotersMax, "a configuration has a few voters");
  }
  const MembershipOptions& job = options_.membership;
  const auto others = std::stable_partition(
      nodes.begin(), nodes.end(),
      [&](const VoterAddress& one) { return order.replicated.involves(one.voter); });
  const std::vector<VoterAddress> first = chunk_from(nodes, nodes.begin());
  DDP_CHECK(others - nodes.begin() <= std::ssize(first), "all voters have room in one message");
  for (std::size_t place = 0; place < order.voters.size(); ++place) {
    send({order.voters[place]},
         message::VoterState{static_cast<int>(place), order.replicated, first, now.count(),
                             *order.so_far, job.min_nodes, job.max_nodes, job.max_restarts,
                             job.require_same_env, options_.heartbeat_timeout});
  }
  nodes.erase(nodes.begin(), nodes.begin() + std::ssize(first));
  send_addresses(order.voters, nodes);
}

void LeaderOutbox::send_addresses(const std::vector<NodeId>& voters,
                                  const std::vector<VoterAddress>& nodes) {
  for (auto from = nodes.begin(); from != nodes.end();) {
    std::vector<VoterAddress> chunk = chunk_from(nodes, from);
    DDP_CHECK(!chunk.empty(), "each message names a node");
    from += std::ssize(chunk);
    send(voters, message::MoreNodes{std::move(chunk)});
  }
}

/// The stamp comes back with the first beat, and proves that the node followed at the time of this
/// message. Until then its contact counts for nothing.
void LeaderOutbox::give(const Welcome& order, Instant now) {
  send({order.node}, message::Accepted{order.term, order.coordinator, now.count(), order.instance,
                                       options_.host, options_.at_first_endpoint});
}

void LeaderOutbox::give(TellStory order) {
  DDP_CHECK(order.so_far != nullptr, "there is a story to send");
  send(std::move(order.voters), message::Story{order.attempt, *order.so_far});
}

void LeaderOutbox::give(TellWorld order) {
  DDP_CHECK(!order.nodes.empty(), "a world is told to somebody");
  send(std::move(order.nodes),
       message::TellWorld{order.attempt, order.configuration, order.term, order.instance});
}

void LeaderOutbox::give(StopWorkers order) {
  send({order.node},
       message::Stop{order.attempt, std::move(order.reason), order.how, order.signal});
}

void LeaderOutbox::give(const Release& order) {
  DDP_CHECK(order.so_far != nullptr, "a node that leaves gets the story so far");
  send({order.node}, message::Finish{*order.so_far});
}

void LeaderOutbox::give(TellWaiting order) {
  DDP_CHECK(order.table != nullptr, "there is a table to send");
  send(std::move(order.nodes), message::Waiting{*order.table});
}

void LeaderOutbox::give(const AskEnvironment& order) {
  send({order.node}, message::AskEnvironment{});
}

void LeaderOutbox::give(TellIncident order) {
  send(std::move(order.nodes), message::TellIncident{std::move(order.text)});
}

}  // namespace ddprun
