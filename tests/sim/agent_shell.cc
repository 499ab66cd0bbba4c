#include "tests/sim/agent_shell.h"

#include <algorithm>
#include <utility>

#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"
#include "tests/sim/message_text.h"
#include "tests/sim/narrator.h"

namespace ddprun::sim {
namespace {

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

/// Without reboots: a machine that comes back has no process of before all the same.
HostIdentity host_of(const Machine& machine) {
  const auto number = static_cast<std::uint64_t>(machine.index()) + 1;
  return {number, number, number};
}

}  // namespace

AgentShell::AgentShell(Machine& machine) : machine_(machine), workers_(machine, *this) {}

AgentShell::~AgentShell() = default;

Duration AgentShell::timeout() const {
  return machine_.cluster().options().timeout_of(machine_.index());
}

template <class Action>
void AgentShell::later(Duration delay, Action action) {
  machine_.later(delay, [this, action = std::move(action)]() mutable {
    if (!over_) {
      action();
    }
  });
}

void AgentShell::start() {
  const SimOptions& options = machine_.cluster().options();
  NodeOptions mine;
  const bool begins = machine_.index() == 0 && !machine_.cluster().has_begun();
  const int endpoints = begins && !options.fresh_coordinators ? 1 : options.places();
  for (int i = 0; i < endpoints; ++i) {
    mine.endpoints.push_back({host_name(i), kEndpointPort});
  }
  if (!options.fresh_coordinators && !begins) {
    mine.is_host = false;
  }
  mine.node = describe(machine_);
  mine.join_timeout = std::chrono::duration_cast<milliseconds>(options.join_timeout);
  mine.heartbeat_timeout = std::chrono::duration_cast<milliseconds>(timeout());
  mine.failover = options.failover;
  mine.by_service = options.service;
  gate_is_endpoint_ = !options.service && machine_.index() > 0 && machine_.index() < endpoints;
  gate_ = gate_is_endpoint_ ? kEndpointPort : machine_.cluster().new_port();
  if (options.failover) {
    voter_ = VoterId{(machine_.random().next() >> 1U) | 1U};
    machine_.cluster().register_voter(voter_, machine_.index());
  }
  node_ = std::make_unique<Node>(std::move(mine));
  if (options.service) {
    service_ = std::make_unique<ServiceClient>(machine_);
    service_search_ = std::make_unique<ServiceSearchShell>(
        machine_, *service_, [this](NodeInput input) { return told_by_service(std::move(input)); });
  }
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
  if (search_ && !kernel_lives) {
    search_->lose_connection();
  }
  search_.reset();
  service_search_.reset();
  service_.reset();
  if (connection_ && kernel_lives) {
    network.close(*connection_, Side::client);
  } else if (connection_) {
    network.lose(*connection_, Side::client);
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

bool AgentShell::gathers() const {
  return leader_ && leader_->leader().membership().state() == JobState::gathering;
}

int AgentShell::leader_machine() const {
  if (leader_) {
    return machine_.index();
  }
  const bool follows = node_ && node_->state() == Node::State::following && connection_;
  return follows ? machine_.cluster().network().machine_of(*connection_, Side::server) : -1;
}

void AgentShell::signal(int number, StopWish wish) {
  if (wish == StopWish::leave) {
    step(LeaveWished{});
  }
  say(message::StopRequest{number, wish});
}

void AgentShell::say(const Said& said) {
  if (connection_ && !held_) {
    machine_.cluster().network().send(*connection_, Side::client, said);
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
    Narrator* narrator = machine_.cluster().narrator();
    const std::optional<NodeInput> told = narrator != nullptr ? std::optional(next) : std::nullopt;
    for (NodeAction& action : node_->step(machine_.now(), std::move(next))) {
      if (!over_) {
        if (narrator != nullptr) {
          narrator->decided(machine_.index(), *told, action);
        }
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
  search_ =
      std::make_unique<SearchShell>(machine_,
                                    SearchRequest{std::move(order.places), node_->description(),
                                                  order.is_host, order.timeout, order.by_endpoint},
                                    *this);
}

void AgentShell::carry_out(const AskService& order) {
  search_.reset();
  service_search_->start(order.dead, node_->description());
}

bool AgentShell::told_by_service(NodeInput input) {
  const auto* appointed = std::get_if<Appointed>(&input);
  if (appointed != nullptr && machine_.cluster().tracing()) {
    const auto& state = appointed->state;
    machine_.cluster().log(
        machine_.index(),
        "is let lead in term " + std::to_string(number(appointed->term)) + ", with " +
            (state ? "configuration " + to_text(state->replicated.configuration.number)
                   : "no state"));
  }
  if (!over_) {
    step(std::move(input));
  }
  return !over_ && node_->state() == Node::State::leading;
}

void AgentShell::carry_out(const StopSearch& /*order*/) {
  search_.reset();
  if (service_search_) {
    service_search_->stop();
  }
}

void AgentShell::on_bound(std::uint16_t port) {
  step(EndpointBound{port, JobInstance{number(voter_)}});
}

void AgentShell::on_search_failed(const SearchFailed& how) {
  step(how);
}

void AgentShell::on_accepted(ConnectionId connection, const HelloAccepted& how) {
  accepted_ = connection;
  accepted_at_ = how.asked_at;
  greeting_ = how.accepted;
  step(how);
  if (accepted_) {  // it is not to be followed
    machine_.cluster().network().close(*std::exchange(accepted_, std::nullopt), Side::client);
  }
}

// --- What others ask ------------------------------------------------------------------------

std::optional<message::Message> AgentShell::answer(const message::Message& question) {
  if (leader_) {
    return leader_->answer(question);
  }
  if (const auto* call = std::get_if<message::Follow>(&question)) {
    later(Duration(0), [this, call = *call] { step(CalledByLeader{call}); });
    return node_->answer_to_call();
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
  door_ = !options.service && machine_.index() == 0 &&
          (options.endpoints > 1 || !options.fresh_coordinators);
}

void AgentShell::carry_out(const FollowLeader& /*order*/) {
  follow(*std::exchange(accepted_, std::nullopt), false, accepted_at_, Instant(greeting_->stamp));
}

/// On a socket pair (`local`) nothing is ever due. The first beat echoes the stamp of the answer.
void AgentShell::follow(ConnectionId connection, bool local, Instant asked_at, Instant stamp) {
  const SimOptions& options = machine_.cluster().options();
  connection_ = connection;
  newest_.reset();
  held_ = false;
  const bool beats = !local && options.heartbeats;
  lease_.emplace(beats ? timeout() : Duration(0), machine_.now());
  lease_->take_stamp(machine_.now(), stamp);
  lease_->begin(machine_.now(), asked_at);
  check_lease();
  if (!beats && !local) {
    say(message::Echo{stamp.count()});  // in place of the first beat
  }
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
  } else if (search_ && search_->connection() == connection) {
    search_->on_message(said);
  } else if (connection != connection_ || held_) {
    return;
  } else if (known != nullptr) {
    obey(**known);
  } else {
    lose("its connection closed", !std::get<Closed>(said).reset);
  }
}

void AgentShell::obey(const message::Message& order) {
  if (const auto* beat = std::get_if<message::Beat>(&order)) {
    const FollowerLease::Answer told{beat->timeout, Instant(beat->stamp), beat->quorum_age};
    if (lease_->answered(machine_.now(), told)) {
      say(message::Echo{beat->stamp});
    }
    arm_lease();
  } else if (const auto* assigned = std::get_if<message::Assigned>(&order)) {
    if (!newest_ || assigned->world.attempt > *newest_) {
      newest_ = assigned->world.attempt;
      lease_->world_begins(machine_.now());
      arm_lease();
      step(ToldByLeader{order});
      workers_.assign(assigned->world);
    }
  } else if (const auto* stop = std::get_if<message::Stop>(&order)) {
    if (newest_ == stop->attempt) {
      workers_.stop(stop->attempt, stop->how);
    }
  } else if (std::holds_alternative<message::Farewell>(order)) {
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
  }
}

void AgentShell::carry_out(const AcknowledgeState& order) {
  lease_->take_stamp(machine_.now(), Instant(order.acknowledged.stamp));
  lease_->quorum_needed_soon(machine_.now());
  arm_lease();
  say(order.acknowledged);
}

// --- The lease ------------------------------------------------------------------------------

void AgentShell::check_lease() {
  const bool unread = machine_.cluster().network().unread(*connection_, Side::client);
  switch (lease_->time_passed(machine_.now(), unread)) {
    case FollowerLease::Step::wait:
    case FollowerLease::Step::look_again:
      break;
    case FollowerLease::Step::beat:
      say(message::Beat{std::chrono::duration_cast<milliseconds>(timeout()),
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
    const auto tell = [mine = voter_, which = elections_](auto input) {
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
          const auto* moved = said ? std::get_if<message::Moved>(&*said) : nullptr;
          const int place = other.machine_.index();
          if (moved != nullptr && moved->from == question.voter) {
            cluster.ask(place, self, tell(LeaderNamed{*moved}));
          }
          if (vote == nullptr) {
            return;
          }
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
  led.heartbeat_timeout = std::chrono::duration_cast<milliseconds>(timeout());
  led.membership.heartbeat_timeout = timeout();
  led.failover = options.failover;
  if (order.at_bound_endpoint) {
    gate_ = kEndpointPort;
    gate_is_endpoint_ = true;
  }
  led.membership.at_endpoint = gate_is_endpoint_;
  led.host = host_of(machine_);
  led.at_first_endpoint = machine_.index() == 0 && (door_ || gate_ == kEndpointPort);
  led.addresses = node_->description().addresses;
  led.port = static_cast<std::uint16_t>(gate_);
  std::set<VoterId> votes;
  led.membership.instance = order.instance;
  led.membership.waited = order.waited;
  led.membership.term = order.term;
  led.service = options.service ? "the service" : "";
  if (order.takeover) {
    led.nodes = order.takeover->known.nodes;
    led.membership.term = order.takeover->term;
    led.membership.inheritance = std::move(order.takeover->state);
    votes.insert(order.takeover->votes.begin(), order.takeover->votes.end());
    machine_.cluster().count_takeover();
  }
  leader_ = std::make_unique<LeaderShell>(machine_, std::move(led), votes, *this, service_.get());
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
  later(Duration(0), [this, order] { step(LeaderDeposed{order.why, order.by, order.so_far}); });
}

}  // namespace ddprun::sim
