#include "tests/sim/agent_shell.h"

#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

constexpr Duration kLookAgain = milliseconds(300);
/// A coordinator answers a hello at once, and a host that is there refuses at once.
constexpr Duration kAnswerTimeout = seconds(3);
constexpr Duration kElsewhereTimeout = seconds(1);
/// Of a job of thousands of nodes.
constexpr int kEndpointsMax = 8;

NodeDescription describe(Machine& machine) {
  const SimOptions& options = machine.cluster().options();
  NodeDescription node;
  node.host_name = host_name(machine.index());
  node.local_world_size = 1 + machine.random().number_below(options.workers_max);
  node.role = "default";
  node.job_id = "job";
  node.min_nodes = options.min_nodes;
  node.max_nodes = options.max_nodes;
  node.max_restarts = options.max_restarts;
  node.program = "train";
  node.witness = machine.index() >= options.agents;
  if (options.ranked && machine.index() != 0 && !node.witness) {
    node.node_rank = machine.index();
  }
  return node;
}

}  // namespace

AgentShell::AgentShell(Machine& machine) : machine_(machine), workers_(machine, *this) {}

AgentShell::~AgentShell() = default;

template <class Action>
void AgentShell::later(Duration delay, Action action) {
  machine_.later(delay, [this, action] {
    if (!over_) {
      action();
    }
  });
}

void AgentShell::start() {
  const SimOptions& options = machine_.cluster().options();
  NodeOptions mine;
  const bool begins = machine_.index() == 0 && !machine_.cluster().has_begun();
  const int endpoints = options.fresh_coordinators ? options.endpoints
                        : begins                   ? 1
                                                   : std::min(options.machines(), kEndpointsMax);
  for (int i = 0; i < endpoints; ++i) {
    mine.endpoints.push_back({host_name(i), kEndpointPort});
  }
  if (!options.fresh_coordinators && !begins) {
    mine.is_host = false;
  }
  mine.node = describe(machine_);
  mine.join_timeout = std::chrono::duration_cast<milliseconds>(options.join_timeout);
  mine.heartbeat_timeout = std::chrono::duration_cast<milliseconds>(options.heartbeat_timeout);
  mine.failover = options.failover;
  gate_is_endpoint_ = machine_.index() > 0 && machine_.index() < endpoints;
  gate_ = gate_is_endpoint_ ? kEndpointPort : machine_.cluster().new_port();
  if (options.failover) {
    voter_ = VoterId{(machine_.random().next() >> 1U) | 1U};
    machine_.cluster().register_voter(voter_, machine_.index());
  }
  node_ = std::make_unique<Node>(std::move(mine));
  step(NodeStarted{voter_, {host_name(machine_.index())}, static_cast<std::uint16_t>(gate_)});
}

void AgentShell::end(bool kernel_lives) {
  machine_.cluster().observer().voter_gone(voter_);
  over_ = true;
  if (leader_) {
    leader_->end(kernel_lives);
    leader_.reset();
  }
  Network& network = machine_.cluster().network();
  for (const auto& one : {connection_, search_ ? search_->connection : std::nullopt}) {
    if (one && kernel_lives) {
      network.close(*one, Side::client);
    } else if (one) {
      network.lose(*one, Side::client);
    }
  }
}

/// It takes no part any more: its process ends, unless it still has the summary to hand out.
void AgentShell::be_over() {
  over_ = true;
  if (!leader_) {
    machine_.exit();
  }
}

std::optional<Term> AgentShell::leading_term() const {
  return leader_ ? std::optional(leader_->leader().term()) : std::nullopt;
}

void AgentShell::signal(int number, StopWish wish) {
  say(message::StopRequest{number, wish});
}

void AgentShell::say(message::Message said) {
  if (connection_ && !held_) {
    machine_.cluster().network().send(*connection_, Side::client, std::move(said));
  }
}

bool AgentShell::listens_at(int port) const {
  return !over_ && (port == gate_ || (door_ && port == kEndpointPort));
}

// --- Node and its timer ---------------------------------------------------------------------

void AgentShell::step(NodeInput input) {
  inputs_.push_back(std::move(input));
  if (stepping_) {
    return;
  }
  stepping_ = true;
  while (!inputs_.empty() && !over_) {
    NodeInput next = std::move(inputs_.front());
    inputs_.erase(inputs_.begin());
    for (NodeAction& action : node_->step(machine_.now(), std::move(next))) {
      if (!over_) {
        std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
      }
    }
  }
  stepping_ = false;
  arm();
}

void AgentShell::arm() {
  const auto due = over_ ? std::nullopt : node_->next_deadline();
  if (due == armed_) {
    return;
  }
  armed_ = due;
  if (due) {
    later(std::max(*due - machine_.now(), Duration(0)), [this, due] {
      if (armed_ == due) {
        armed_.reset();
        step(NodeTimePassed{});
      }
    });
  }
}

void AgentShell::carry_out(const LogLine& order) {
  if (machine_.cluster().tracing()) {
    machine_.cluster().log(machine_.index(), order.text);
  }
}

void AgentShell::carry_out(const GiveUp& /*order*/) {
  be_over();
}

// --- Searching ------------------------------------------------------------------------------

void AgentShell::carry_out(SearchLeader order) {
  end_search();
  search_.emplace(std::move(order), machine_.now());
  look_after(Duration(0));
}

void AgentShell::carry_out(const StopSearch& /*order*/) {
  end_search();
}

void AgentShell::end_search() {
  ++searches_;
  if (search_ && search_->connection) {
    machine_.cluster().network().close(*search_->connection, Side::client);
  }
  search_.reset();
}

void AgentShell::look_after(Duration pause) {
  later(pause, [this, which = searches_] {
    if (which == searches_ && search_) {
      look();
    }
  });
}

bool AgentShell::is_own(const Endpoint& place) const {
  return machine_of_host(place.host) == machine_.index();
}

void AgentShell::look() {
  Search& search = *search_;
  const Duration limit = search.order.timeout;
  if (machine_.now() - search.since >= limit) {
    end_search();
    step(SearchFailed{Error{"nobody answered", {}, {}}, false});
    return;
  }
  if (search.detour) {
    search.on_detour = true;
    connect_to(*std::exchange(search.detour, std::nullopt));
    return;
  }
  search.on_detour = false;
  const Endpoint& place = search.order.places[search.turn];
  const bool may_bind =
      search.turn == 0 && !search.order.is_host && is_own(place) && place.port == kEndpointPort;
  if (may_bind && (search.asked_elsewhere || search.order.places.size() == 1)) {
    end_search();
    step(EndpointBound{kEndpointPort});
  } else if (may_bind || is_own(place)) {
    next_place();
    look_after(search.turn == 0 ? kLookAgain : Duration(0));
  } else {
    connect_to(place);
  }
}

/// One that could bind the first endpoint asks each of the others once before.
void AgentShell::next_place() {
  Search& search = *search_;
  search.turn = (search.turn + 1) % search.order.places.size();
  search.asked_elsewhere = search.asked_elsewhere || search.turn == 0;
}

void AgentShell::connect_to(const Endpoint& place) {
  Search& search = *search_;
  Network& network = machine_.cluster().network();
  search.connection = network.connect(machine_.index(), machine_of_host(place.host), place.port);
  search.asked_at = machine_.now();
  NodeDescription hello = node_->description();
  hello.by_endpoint = search.order.by_endpoint && !search.on_detour;
  hello.said_at = machine_.now();
  network.send(*search.connection, Side::client, message::Hello{std::move(hello)});
  const bool could_bind = is_own(search.order.places.front()) && !search.order.is_host;
  const bool is_there = machine_.cluster().machine(machine_of_host(place.host)).powered();
  later(!is_there    ? kLookAgain
        : could_bind ? kElsewhereTimeout
                     : kAnswerTimeout,
        [this, which = searches_, connection = *search.connection] {
          if (which == searches_ && search_ && search_->connection == connection) {
            on_answer(Closed{true});
          }
        });
}

void AgentShell::on_answer(const Message& said) {
  Search& search = *search_;
  const auto* known = std::get_if<Said>(&said);
  const message::Message* answer = known != nullptr ? known->get() : nullptr;
  if (answer != nullptr && std::holds_alternative<message::Accepted>(*answer)) {
    accepted_ = search.connection;
    accepted_at_ = search.asked_at;
    greeting_ = std::get<message::Accepted>(*answer);
    const int leader = machine_.cluster().network().machine_of(*accepted_, Side::server);
    const int port = machine_.cluster().network().port_of(*accepted_);
    HelloAccepted input{*greeting_,
                        to_text(Endpoint{host_name(leader), static_cast<std::uint16_t>(port)}),
                        accepted_at_, search.turn == 0 && !search.on_detour};
    search.connection.reset();
    step(std::move(input));
    if (accepted_) {  // it is not to be followed
      machine_.cluster().network().close(*std::exchange(accepted_, std::nullopt), Side::client);
    }
    return;
  }
  machine_.cluster().network().close(*std::exchange(search.connection, std::nullopt), Side::client);
  if (answer != nullptr && std::holds_alternative<message::Rejected>(*answer)) {
    end_search();
    step(SearchFailed{Error{std::get<message::Rejected>(*answer).why, {}, {}}, true});
    return;
  }
  const auto* moved = answer != nullptr ? std::get_if<message::Moved>(answer) : nullptr;
  const bool leads_on = moved != nullptr && !moved->addresses.empty();
  if (leads_on && machine_of_host(moved->addresses.front()) != machine_.index() &&
      !search.on_detour) {
    search.detour = Endpoint{moved->addresses.front(), moved->port};
    look_after(Duration(0));
    return;
  }
  next_place();
  const bool asks = is_own(search.order.places.front()) && !search.order.is_host;
  look_after(asks ? Duration(0) : kLookAgain);
}

// --- What others ask ------------------------------------------------------------------------

std::optional<message::Message> AgentShell::answer(const message::Message& question) {
  if (leader_) {
    return leader_->answer(question);
  }
  if (const auto* call = std::get_if<message::Follow>(&question)) {
    later(Duration(0), [this, call = *call] { step(CalledByLeader{call}); });
    return message::Moved{};
  }
  said_.reset();
  step(AskedByPeer{question});
  return std::exchange(said_, std::nullopt);
}

void AgentShell::carry_out(AnswerPeer order) {
  said_ = std::move(order.answer);
}

// --- Following ------------------------------------------------------------------------------

void AgentShell::carry_out(const ListenAtFirstEndpoint& /*order*/) {
  const SimOptions& options = machine_.cluster().options();
  door_ = machine_.index() == 0 && (options.endpoints > 1 || !options.fresh_coordinators);
}

void AgentShell::carry_out(const FollowLeader& /*order*/) {
  follow(*std::exchange(accepted_, std::nullopt), false, accepted_at_);
  lease_->take_stamp(machine_.now(), Instant(greeting_->stamp));
}

/// On a socket pair (`local`) nothing is ever due.
void AgentShell::follow(ConnectionId connection, bool local, Instant asked_at) {
  const SimOptions& options = machine_.cluster().options();
  connection_ = connection;
  newest_.reset();
  held_ = farewell_ = false;
  const bool beats = !local && options.heartbeats;
  lease_.emplace(beats ? options.heartbeat_timeout : Duration(0), machine_.now());
  lease_->begin(machine_.now(), asked_at);
  check_lease();
}

void AgentShell::on_message(ConnectionId connection, Side side, const Message& said) {
  Network& network = machine_.cluster().network();
  const auto* known = std::get_if<Said>(&said);
  if (side == Side::server) {
    if (leader_ && (leader_->serves(connection) || listens_at(network.port_of(connection)))) {
      leader_->on_message(connection, said);
    } else if (const auto hello = known != nullptr && listens_at(network.port_of(connection))
                                      ? answer(**known)
                                      : std::nullopt) {
      network.send(connection, Side::server, *hello);
      network.close(connection, Side::server);
    } else {
      network.close(connection, Side::server);
    }
  } else if (search_ && connection == search_->connection) {
    on_answer(said);
  } else if (connection != connection_ || held_) {
    return;
  } else if (known != nullptr) {
    obey(**known);
  } else {
    lose("its connection closed", !farewell_ && !std::get<Closed>(said).reset);
  }
}

void AgentShell::obey(const message::Message& order) {
  if (const auto* beat = std::get_if<message::Beat>(&order)) {
    const FollowerLease::Answer told{machine_.cluster().options().heartbeat_timeout,
                                     Instant(beat->stamp), beat->quorum_age};
    if (lease_->answered(machine_.now(), told)) {
      say(message::Echo{beat->stamp});
    }
    arm_lease();
  } else if (const auto* assigned = std::get_if<message::Assigned>(&order)) {
    if (!newest_ || assigned->world.attempt > *newest_) {
      newest_ = assigned->world.attempt;
      step(ToldByLeader{order});
      workers_.assign(assigned->world);
    }
  } else if (const auto* stop = std::get_if<message::Stop>(&order)) {
    if (newest_ == stop->attempt) {
      workers_.stop(stop->attempt, stop->how);
    }
  } else if (std::holds_alternative<message::Farewell>(order)) {
    farewell_ = true;
    lose("another one leads", false);
  } else if (std::holds_alternative<message::Finish>(order)) {
    if (workers_.live()) {
      machine_.cluster().observer().broken("the job ends while workers live");
    }
    be_over();
  } else if (std::holds_alternative<message::Rejected>(order)) {
    be_over();
  } else {
    if (const auto* accepted = std::get_if<message::Accepted>(&order)) {
      lease_->take_stamp(machine_.now(), Instant(accepted->stamp));
    }
    step(ToldByLeader{order});
    if (const auto* state = std::get_if<message::StandbyState>(&order)) {
      say(message::StandbyReady{state->replicated.configuration.number});
    }
  }
}

void AgentShell::carry_out(const AcknowledgePrepare& order) {
  lease_->take_stamp(machine_.now(), Instant(order.ready.stamp));
  lease_->quorum_needed_soon(machine_.now());
  arm_lease();
  say(order.ready);
}

// --- The lease ------------------------------------------------------------------------------

void AgentShell::check_lease() {
  const bool unread = machine_.cluster().network().unread(*connection_, Side::client);
  switch (lease_->time_passed(machine_.now(), unread)) {
    case FollowerLease::Step::wait:
    case FollowerLease::Step::look_again:
      break;
    case FollowerLease::Step::beat:
      say(message::Beat{
          std::chrono::duration_cast<milliseconds>(machine_.cluster().options().heartbeat_timeout),
          lease_->newest_stamp().count(), std::nullopt});
      break;
    case FollowerLease::Step::lost:
      lose("it was silent", false);
      return;
  }
  arm_lease();
}

void AgentShell::arm_lease() {
  if (const auto due = lease_->due()) {
    later(*due - machine_.now(), [this, which = ++lease_armed_] {
      if (which == lease_armed_ && connection_ && !held_) {
        check_lease();
      }
    });
  }
}

// --- Losing it ------------------------------------------------------------------------------

void AgentShell::lose(const std::string& why, bool closed) {
  const Instant last_contact = lease_->stamp_came_at();
  carry_out(LeaveLeader{});
  step(LeaderLost{Error{why, {}, {}}, why, last_contact, closed});
}

void AgentShell::carry_out(const LeaveLeader& /*order*/) {
  say(message::Leaving{});
  machine_.cluster().network().hold(*connection_, Side::client);
  held_ = true;
}

void AgentShell::carry_out(const CloseConnection& /*order*/) {
  if (connection_) {
    machine_.cluster().network().close(*std::exchange(connection_, std::nullopt), Side::client);
  }
}

void AgentShell::carry_out(const FenceWorkers& /*order*/) {
  workers_.fence();
}

void AgentShell::workers_gone() {
  later(Duration(0), [this] { step(WorkersGone{}); });
}

// --- Election -------------------------------------------------------------------------------

void AgentShell::carry_out(const AskVotes& order) {
  Cluster& cluster = machine_.cluster();
  const int self = machine_.index();
  for (const message::VoterAddress& voter : order.voters) {
    const VoterId one = voter.voter;
    const auto tell = [mine = voter_, which = elections_](NodeInput input) {
      return [mine, which, input = std::move(input)](AgentShell& asker) {
        if (asker.voter_ == mine && asker.elections_ == which) {
          asker.step(input);
        }
      };
    };
    const message::AskVote question{"job", one, order.request};
    cluster.ask_voter(
        self, one,
        [&cluster, self, question, tell](AgentShell& other) {
          const auto said = other.answer(question);
          const auto* vote = said ? std::get_if<message::VoteAnswer>(&*said) : nullptr;
          if (vote == nullptr) {
            return;
          }
          const int place = other.machine_.index();
          if (cluster.tracing()) {
            cluster.log(place, "is asked by n" + std::to_string(self) + " for its vote of term " +
                                   std::to_string(number(question.request.term)) + ": " +
                                   std::to_string(static_cast<int>(vote->vote.verdict)));
          }
          cluster.ask(place, self, tell(VoteReceived{question.voter, vote->vote}));
        },
        tell(VoterGone{one}));
  }
}

void AgentShell::carry_out(const StopAsking& /*order*/) {
  ++elections_;
}

// --- Leading --------------------------------------------------------------------------------

void AgentShell::carry_out(BeginLeading order) {
  const SimOptions& options = machine_.cluster().options();
  LeaderOptions led;
  led.membership = membership_options(options);
  led.membership.self = voter_;
  led.heartbeat_timeout = std::chrono::duration_cast<milliseconds>(options.heartbeat_timeout);
  led.failover = options.failover;
  if (order.at_bound_endpoint) {
    gate_ = kEndpointPort;
    gate_is_endpoint_ = true;
  }
  led.membership.at_endpoint = gate_is_endpoint_;
  led.addresses = node_->description().addresses;
  led.port = static_cast<std::uint16_t>(gate_);
  std::set<VoterId> votes;
  if (order.takeover) {
    led.voters = order.takeover->known.voters;
    led.membership.term = order.takeover->term;
    led.membership.inheritance = std::move(order.takeover->state);
    votes.insert(order.takeover->votes.begin(), order.takeover->votes.end());
    machine_.cluster().count_takeover();
  }
  leader_ = std::make_unique<LeaderShell>(machine_, std::move(led), votes, *this);
  const ConnectionId local =
      machine_.cluster().network().connect(machine_.index(), machine_.index());
  leader_->connect_local(local);
  follow(local, true, machine_.now());
  say(message::Hello{node_->description()});
}

void AgentShell::carry_out(const StopLeading& /*order*/) {
  carry_out(CloseConnection{});
  leader_->resign();
  leader_.reset();
}

void AgentShell::on_call_answered(const CallAnswered& answered) {
  if (leader_) {
    leader_->on_call_answered(answered);
  }
}

void AgentShell::deposed(const StepDown& order) {
  later(Duration(0), [this, order] { step(LeaderDeposed{order.why, order.by}); });
}

}  // namespace ddprun::sim
