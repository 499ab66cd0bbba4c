// The part of Leader that lets nodes in.
#include <memory>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/node/peer_addresses.h"

namespace ddprun {
namespace {

/// The name or the address of an endpoint can move to another host, as that of a pod does. Then a
/// coordinator at this endpoint proves nothing about the one before: that one may still lead with
/// its half of the voters.
void forget_other_hosts(NodeDescription& node, const HostIdentity& own) {
  if (node.past && !is_same_host(node.past->host, own)) {
    node.past->at_endpoint = false;
  }
  if (node.copy && !is_same_host(node.copy->host, own)) {
    node.copy->at_endpoint = false;
  }
}

/// By a service there is one job of an id, and this leader has it.
bool leads_another(const LeaderOptions& options, const Leadership& leadership,
                   const NodeDescription& node) {
  return options.service.empty() && leadership.instance_is_settled() &&
         of_another_job(leadership.in_use().instance, node);
}

}  // namespace

/// A node comes, or comes back. It may have sent its hello long ago, and have given this leader up
/// since: this process stood still, or the hello was on its way for long. In a world it would be
/// lost at once. So it is accepted here, and counts once it has said something after that. Nothing
/// is begun anew before one that remembers a job has counted. Who is to be refused hears that at
/// once.
void Leader::join(NodeId id, Session& session, NodeDescription node) {
  DDP_CHECK(session.stage == Session::Stage::ungreeted, "a session is greeted once");
  forget_other_hosts(node, options_.host);
  const Leadership& leadership = membership_.leadership();
  if (leads_another(options_, leadership, node)) {
    session.stage = Session::Stage::leaving;
    outbox_.send_away(
        id, message::Moved{{}, {}, 0, options_.membership.self, leadership.in_use().instance});
    return;
  }
  session.voter = node.voter;
  session.hello = std::make_unique<NodeDescription>(std::move(node));
  session.stage = Session::Stage::greeted;
  const bool follows = !session.local && options_.failover && number(session.voter) != 0 &&
                       session.voter != kServiceVoter;
  if (!follows || membership_.refuses(*session.hello)) {
    admit(id, session);
    return;
  }
  const bool remembers = session.hello->past || session.hello->copy;
  if (remembers && !options_.membership.inheritance && !membership_.attempt()) {
    session.awaited = true;
    apply(NodeGreeted{id});
  }
  const ReplicatedState& in_use = leadership.in_use();
  session.greeted_in.emplace(in_use.term, in_use.instance);
  outbox_.give(Welcome{id, in_use.term, options_.membership.self, in_use.instance}, now_);
}

/// Who was greeted knows all of it, unless what it remembers has raised the term, or said which job
/// this is.
void Leader::give(const Welcome& order) {
  const auto found = sessions_.find(order.node);
  if (found == sessions_.end() ||
      found->second.greeted_in != std::pair(order.term, order.instance)) {
    outbox_.give(order, now_);
  }
}

/// Another node may have said meanwhile which job this is. The addresses are kept before the state
/// machine decides, because its first commands may replicate them.
void Leader::admit(NodeId id, Session& session) {
  DDP_CHECK(session.stage == Session::Stage::greeted && session.hello, "a hello comes first");
  NodeDescription node = std::move(*session.hello);
  session.hello.reset();
  const Leadership& leadership = membership_.leadership();
  if (leads_another(options_, leadership, node)) {
    session.stage = Session::Stage::leaving;
    outbox_.send_away(id, message::Farewell{"it leads another job of this id"});
    return;
  }
  session.stage = Session::Stage::member;
  // Only the socket pair comes from the agent that hosts this coordinator.
  node.hosts_coordinator = session.local;
  if (number(node.voter) != 0 && node.voter != kServiceVoter) {
    addresses_.add(
        {node.voter, node.host_name, seen_first(node.addresses, session.address), node.port});
  }
  if (node.copy) {
    for (const VoterAddress& other : node.copy->others) {
      addresses_.learn(other, now_);
    }
  }
  DDP_CHECK(!session.hello, "a hello is taken once");
  const VoterId voter = node.voter;
  voters_know_all_ = false;
  apply(NodeJoined{id, std::move(node), session.address});
  const auto* place = addresses_.find(voter);
  if (auto voters = leadership.voters(); !voters_know_all_ && place != nullptr && !voters.empty()) {
    // No reason for another configuration, but a successor has to find this node, too.
    outbox_.send(std::move(voters), message::MoreNodes{{*place}});
  }
  tell_old_voters(id, voter);
}

/// A coordinator that began without state may end before it has replicated anything. Then one of
/// the old voters may lead, and only these can tell it of the nodes that came here.
void Leader::tell_old_voters(NodeId joined, VoterId voter) {
  const std::vector<NodeId> old = membership_.leadership().old_voters();
  const auto* place = addresses_.find(voter);
  if (old.empty() || place == nullptr) {
    return;
  }
  DDP_CHECK(number(options_.membership.self) != 0, "a job without failover has no old voters");
  for (const NodeId one : old) {
    outbox_.send_addresses({one}, one == joined ? addresses_.all() : std::vector{*place});
  }
}

}  // namespace ddprun
