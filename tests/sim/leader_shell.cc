#include "tests/sim/leader_shell.h"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/event_text.h"
#include "tests/sim/agent_shell.h"
#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/narrator.h"

namespace ddprun::sim {
namespace {

/// How long agents may take to read that the job is over.
constexpr Duration kDrainGrace = seconds(2);
/// Chances of a coordinator whose machine vanishes as it tells the end: that it does so before the
/// last step, and that what it says then does not reach a node.
constexpr double kDiesBefore = 0.2;
constexpr double kSwallowed = 0.7;

}  // namespace

LeaderShell::LeaderShell(Machine& machine, const LeaderOptions& options,
                         const std::set<VoterId>& votes, AgentShell& agent, ServiceClient* service)
    : machine_(machine),
      agent_(agent),
      leadership_(machine.cluster().new_leadership()),
      leader_(options, machine.now()) {
  leader_.watch(this);
  const auto& inherited = options.membership.inheritance;
  machine_.cluster().observer().leadership_begins(leadership_, machine_.index(), leader_.term(),
                                                  options.membership.self,
                                                  leader_.membership().restarts_used(), votes,
                                                  inherited ? inherited->known : ReplicatedState{});
  if (service != nullptr) {
    const MembershipOptions& job = options.membership;
    NodeDescription witness;
    witness.host_name = options.service;
    witness.job_id = job.job_id;
    witness.min_nodes = job.min_nodes;
    witness.max_nodes = job.max_nodes;
    witness.max_restarts = job.max_restarts;
    witness.witness = true;
    witness.voter = kServiceVoter;
    voter_ =
        std::make_unique<ServiceVoterShell>(machine, *service, new_node(), timeout(),
                                            [this](LeaderInput input) { step(std::move(input)); });
    voter_->join(std::move(witness));
  }
  arm();
}

LeaderShell::~LeaderShell() {
  *here_ = false;
}

Duration LeaderShell::timeout() const {
  return machine_.cluster().options().timeout_of(machine_.index());
}

template <class Action>
void LeaderShell::later(Duration delay, Action action) {
  machine_.later(delay, [here = here_, action = std::move(action)]() mutable {
    if (*here) {
      action();
    }
  });
}

void LeaderShell::resign() {
  *here_ = false;
  if (voter_) {
    voter_->leave();
  }
  Network& network = machine_.cluster().network();
  for (const Peer& peer : peers_) {
    if (peer.exists && !peer.gone) {
      network.send(peer.connection, Side::server, message::Farewell{});
      network.close(peer.connection, Side::server);
    }
  }
  machine_.cluster().observer().leadership_ends(leadership_);
}

void LeaderShell::end(bool kernel_lives) {
  *here_ = false;
  Network& network = machine_.cluster().network();
  for (const Peer& peer : peers_) {
    if (peer.exists && kernel_lives) {
      network.close(peer.connection, Side::server);
    } else if (peer.exists) {
      network.lose(peer.connection, Side::server);
    }
  }
  machine_.cluster().observer().leadership_ends(leadership_);
}

// --- Connections ----------------------------------------------------------------------------

NodeId LeaderShell::new_node() {
  peers_.emplace_back();
  return NodeId{peers_.size()};
}

NodeId LeaderShell::add(ConnectionId connection, bool local) {
  const NodeId id = new_node();
  Peer& peer = peer_of(id);
  peer.exists = true;
  peer.connection = connection;
  peer.local = local;
  peer.heard_at = machine_.now();
  nodes_[connection] = id;
  const int from = machine_.cluster().network().machine_of(connection, Side::client);
  step(SessionOpened{id, local, local ? std::string() : host_name(from)});
  if (!local && machine_.cluster().options().heartbeats) {
    watch_silence(id);
  }
  return id;
}

void LeaderShell::on_message(ConnectionId connection, const Message& said) {
  const auto found = nodes_.find(connection);
  const NodeId id = found != nodes_.end() ? found->second : add(connection, false);
  Peer& peer = peer_of(id);
  const auto* known = std::get_if<Said>(&said);
  if (known == nullptr) {
    const auto [reset, broken] = std::get<Closed>(said);
    lost({id, reset ? "its connection broke" : "its connection closed", Duration(0), !reset,
          reset && !broken});
    return;
  }
  peer.heard_at = machine_.now();
  const bool watched = std::exchange(peer.watched, false);
  const message::Message& message = **known;
  if (const auto* beat = std::get_if<message::Beat>(&message)) {
    if (beat->stamp > 0) {
      step(SessionEchoed{id, Instant(beat->stamp)});
    }
    machine_.cluster().network().send(
        connection, Side::server,
        message::Beat{std::chrono::duration_cast<milliseconds>(timeout()), machine_.now().count(),
                      leader_.advertised_age(machine_.now())});
  } else if (const auto* echo = std::get_if<message::Echo>(&message)) {
    step(SessionEchoed{id, Instant(echo->stamp)});
  } else {
    step(SessionTold{id, message});
  }
  if (watched && *here_) {
    step(SessionHeard{id});
  }
}

void LeaderShell::lost(SessionClosed closed) {
  Peer& peer = peer_of(closed.node);
  if (!std::exchange(peer.gone, true)) {
    if (closed.by_peer) {
      machine_.cluster().network().close(peer.connection, Side::server);
    } else {
      machine_.cluster().network().reset(peer.connection, Side::server);
    }
    step(std::move(closed));
  }
}

void LeaderShell::close(NodeId id) {
  Peer& peer = peer_of(id);
  peer.gone = true;
  machine_.cluster().network().close(peer.connection, Side::server);
}

void LeaderShell::watch_silence(NodeId id) {
  const Duration limit = timeout();
  Peer& peer = peer_of(id);
  const Duration silent_for = machine_.now() - peer.heard_at;
  if (peer.gone) {
    return;
  }
  if (silent_for >= limit) {
    if (!machine_.cluster().network().unread(peer.connection, Side::server)) {
      lost({id, "it was silent", silent_for, false, false});
      return;
    }
    peer.heard_at = machine_.now();  // this process was late
  }
  later(peer.heard_at + limit - machine_.now(), [this, id] { watch_silence(id); });
}

std::optional<message::Message> LeaderShell::answer(const message::Message& question) {
  const NodeId id = new_node();
  asked_ = id;
  step(SessionOpened{id, false, {}});
  step(SessionTold{id, question});
  step(SessionClosed{id, {}, {}, true});
  asked_.reset();
  return std::exchange(answer_, std::nullopt);
}

// --- Leader and its timer -------------------------------------------------------------------

void LeaderShell::step(LeaderInput input) {
  if (!*here_) {
    return;
  }
  inputs_.push_back(std::move(input));
  if (stepping_) {
    return;
  }
  stepping_ = true;
  while (!inputs_.empty() && *here_) {
    LeaderInput next = std::move(inputs_.front());
    inputs_.erase(inputs_.begin());
    for (LeaderAction& action : leader_.step(machine_.now(), std::move(next))) {
      std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
    }
  }
  stepping_ = false;
  arm();
}

void LeaderShell::arm() {
  const auto due = leader_.next_deadline();
  if (due == armed_) {
    return;
  }
  armed_ = due;
  if (due) {
    later(std::max(*due - machine_.now(), Duration(0)), [this, due] {
      if (armed_ == due) {
        armed_.reset();
        step(LeaderTimePassed{});
      }
    });
  }
}

void LeaderShell::applied(Instant /*now*/, const Event& event, const std::vector<Command>& commands,
                          const Membership& membership) {
  Cluster& cluster = machine_.cluster();
  cluster.count_event(event, commands);
  if (cluster.tracing()) {
    cluster.log(machine_.index(), to_text(event));
    for (const Command& command : commands) {
      cluster.log(machine_.index(), "  " + to_text(command));
    }
  }
  if (Narrator* narrator = cluster.narrator()) {
    narrator->led(machine_.index(), event, commands);
  }
  cluster.observer().after(cluster.now(), leadership_, event, commands, membership.state());
}

// --- What it decides ------------------------------------------------------------------------

/// The machine may lose its power at any of the steps in which the end is told.
bool LeaderShell::dies_with(const message::Message& message) {
  const JobState state = leader_.membership().state();
  const bool last = std::holds_alternative<message::Finish>(message) && state == JobState::over;
  const bool before = std::holds_alternative<message::VoterState>(message);
  return machine_.cluster().end_is_fatal() &&
         (last || (before && state == JobState::ending && machine_.random().chance(kDiesBefore)));
}

void LeaderShell::carry_out(const SendMessage& order) {
  if (dies_with(*order.message)) {
    dying_ = true;
    machine_.cluster().vanish_with_end(machine_);
  }
  for (const NodeId node : order.nodes) {
    if (is_service(node)) {
      voter_->take(*order.message);
      continue;
    }
    const Peer& peer = peer_of(node);
    const bool swallowed = dying_ && machine_.random().chance(kSwallowed);
    if (!peer.gone && !swallowed) {
      machine_.cluster().network().send(peer.connection, Side::server, order.message);
    }
  }
}

void LeaderShell::carry_out(AssignWorld order) {
  carry_out(SendMessage{{order.node},
                        std::make_shared<message::Message>(message::Assigned{
                            std::move(order.world), order.configuration, order.term, order.others,
                            order.instance, order.job_age})});
}

void LeaderShell::carry_out(const SendAndClose& order) {
  if (order.node == asked_) {
    answer_ = *order.message;
    return;
  }
  if (is_service(order.node)) {
    return;
  }
  carry_out(SendMessage{{order.node}, order.message});
  close(order.node);
  step(SessionClosed{order.node, "it was sent away", {}, false});
}

void LeaderShell::carry_out(const DropSession& order) {
  if (Peer& peer = peer_of(order.node); peer.exists) {
    peer.gone = true;
    machine_.cluster().network().reset(peer.connection, Side::server);
  }
}

void LeaderShell::carry_out(const WatchSession& order) {
  peer_of(order.node).watched = true;
}

void LeaderShell::carry_out(const EndJob& /*order*/) {
  if (voter_) {
    voter_->end_job();
  }
  later(kDrainGrace, [this] { machine_.exit(); });
}

void LeaderShell::carry_out(const StepDown& order) {
  agent_.deposed(order);
}

void LeaderShell::call(int machine, int port, const message::Follow& call,
                       const std::optional<VoterId>& voter) {
  Cluster& cluster = machine_.cluster();
  const int self = machine_.index();
  cluster.ask(self, machine, [&cluster, self, machine, port, call, voter](AgentShell& other) {
    if (!other.listens_at(port)) {
      return;
    }
    const auto said = other.answer(call);
    const auto* moved = said ? std::get_if<message::Moved>(&*said) : nullptr;
    if (moved != nullptr && (!voter || moved->from == *voter)) {
      const CallAnswered answer{
          {moved->from, {}, {host_name(machine)}, static_cast<std::uint16_t>(port)},
          moved->term,
          moved->instance};
      cluster.ask(machine, self, [answer](AgentShell& caller) { caller.on_call_answered(answer); });
    }
  });
}

void LeaderShell::carry_out(const CallVoters& order) {
  for (const CallVoters::Call& one : order.calls) {
    call(machine_of_host(one.to.addresses.front()), one.to.port, one.call, one.to.voter);
  }
}

void LeaderShell::carry_out(const CallEndpoints& order) {
  const SimOptions& options = machine_.cluster().options();
  if (options.service) {
    return;  // nodes are not sought there
  }
  const int endpoints = options.fresh_coordinators ? options.endpoints : options.machines();
  for (int i = 0; i < endpoints; ++i) {
    if (i != machine_.index() || !agent_.listens_at(kEndpointPort)) {
      call(i, kEndpointPort, order.call, std::nullopt);
    }
  }
}

}  // namespace ddprun::sim
