#include "tests/sim/model_agent.h"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/vote_tally.h"
#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

constexpr Duration kLookAgain = milliseconds(300);
/// A coordinator answers a hello at once.
constexpr Duration kAnswerTimeout = seconds(5);

}  // namespace

ModelAgent::ModelAgent(Machine& machine) : machine_(machine), workers_(machine, *this) {}

ModelAgent::~ModelAgent() = default;

void ModelAgent::start() {
  const SimOptions& options = machine_.cluster().options();
  node_.host_name = "n" + std::to_string(machine_.index());
  node_.local_world_size = 1 + machine_.random().number_below(options.workers_max);
  node_.role = "default";
  node_.job_id = "job";
  node_.min_nodes = options.min_nodes;
  node_.max_nodes = options.max_nodes;
  node_.max_restarts = options.max_restarts;
  node_.program = "train";
  node_.witness = machine_.index() >= options.agents;
  if (options.ranked && machine_.index() != 0 && !node_.witness) {
    node_.node_rank = machine_.index();
  }
  if (options.failover) {
    node_.voter = VoterId{(machine_.random().next() >> 1U) | 1U};
    machine_.cluster().register_voter(node_.voter, machine_.index());
  }
  seek_since_ = machine_.now();
  if (machine_.index() == 0 && !machine_.cluster().has_begun()) {
    MembershipOptions begins = membership_options(options);
    begins.self = node_.voter;
    lead(std::move(begins), {});
    return;
  }
  look();
}

void ModelAgent::end(bool kernel_lives) {
  machine_.cluster().observer().voter_gone(node_.voter);
  state_ = State::over;
  if (coordinator_) {
    coordinator_->end(kernel_lives);
    coordinator_.reset();
  }
  Network& network = machine_.cluster().network();
  for (const auto& one : {connection_, knocking_}) {
    if (one && kernel_lives) {
      network.close(*one, Side::client);
    } else if (one) {
      network.lose(*one, Side::client);
    }
  }
}

/// It takes no part any more: its process ends, unless it still has the summary to hand out.
void ModelAgent::be_over() {
  state_ = State::over;
  if (!coordinator_) {
    machine_.exit();
  }
}

std::optional<Term> ModelAgent::leading_term() const {
  return coordinator_ ? std::optional(coordinator_->term()) : std::nullopt;
}

void ModelAgent::signal(int number, StopWish wish) {
  say(StopRequested{{}, number, wish});
}

void ModelAgent::say(Event event) {
  if (connection_ && !held_) {
    machine_.cluster().network().send(*connection_, Side::client,
                                      Report{std::make_shared<const Event>(std::move(event)), {}});
  }
}

void ModelAgent::on_message(ConnectionId connection, Side side, const Message& message) {
  Network& network = machine_.cluster().network();
  if (side == Side::server) {
    if (coordinator_) {
      coordinator_->on_message(connection, message);
    } else {
      network.close(connection, Side::server);
    }
    return;
  }
  const auto* order = std::get_if<Order>(&message);
  if (connection == knocking_) {
    if (order != nullptr) {
      on_answer(*order);
    } else {
      give_up_knocking();
    }
  } else if (connection != connection_ || held_) {
    return;
  } else if (order != nullptr) {
    obey(*order);
  } else if (const auto* answer = std::get_if<BeatAnswer>(&message)) {
    on_beat_answer(*answer);
  } else if (std::holds_alternative<Farewell>(message)) {
    farewell_ = true;
    lose(false);
  } else if (const auto* closed = std::get_if<Closed>(&message)) {
    lose(!farewell_ && !closed->reset);
  }
}

// --- Looking for the coordinator ------------------------------------------------------------

void ModelAgent::look_again() {
  if (!std::exchange(looking_, true)) {
    machine_.later(kLookAgain, [this] {
      looking_ = false;
      look();
    });
  }
}

/// Who called, whom the last one named, or the endpoints in turn: every machine is one.
int ModelAgent::next_place() {
  if (called_) {
    return called_->machine;
  }
  if (hint_) {
    return *std::exchange(hint_, std::nullopt);
  }
  const int place = turn_++ % machine_.cluster().options().machines();
  return place != machine_.index() ? place : turn_++ % machine_.cluster().options().machines();
}

void ModelAgent::look() {
  if (state_ != State::joining && state_ != State::seeking) {
    return;
  }
  look_again();
  const SimOptions& options = machine_.cluster().options();
  if (machine_.now() - seek_since_ >= options.join_timeout) {
    be_over();
    return;
  }
  if (knocking_) {
    if (machine_.now() - knocked_at_ >= kAnswerTimeout) {
      give_up_knocking();
    }
    return;
  }
  const int place = next_place();
  if (place == machine_.index()) {
    called_.reset();
    return;
  }
  const int self = machine_.index();
  Cluster& cluster = machine_.cluster();
  const bool called = called_.has_value();
  cluster.ask(self, place, [&cluster, self, place](ModelAgent& other) {
    const Moved moved = other.where();
    cluster.ask(place, self, [place, moved](ModelAgent& asker) { asker.on_place(place, moved); });
  });
  if (called && turn_++ % 5 == 4) {
    called_.reset();  // who called is gone again
  }
}

ModelAgent::Moved ModelAgent::where() const {
  if (coordinator_) {
    return {true, std::nullopt};
  }
  return {false, state_ == State::following ? std::optional(leading_) : std::nullopt};
}

void ModelAgent::on_place(int machine, const Moved& moved) {
  if ((state_ != State::joining && state_ != State::seeking) || knocking_) {
    return;
  }
  if (moved.leads) {
    knock(machine);
  } else if (moved.to && *moved.to != machine_.index()) {
    hint_ = moved.to;
  }
}

void ModelAgent::knock(int machine) {
  knocking_ = machine_.cluster().network().connect(machine_.index(), machine);
  knocked_at_ = machine_.now();
  leading_ = machine;
  node_.promise = voter_.promise();
  node_.past = memory_.past();
  machine_.cluster().network().send(*knocking_, Side::client, Hello{node_});
}

void ModelAgent::give_up_knocking() {
  machine_.cluster().network().close(*knocking_, Side::client);
  knocking_.reset();
  look_again();
}

void ModelAgent::on_answer(const Order& order) {
  const auto* welcome = std::get_if<Welcome>(order.command.get());
  if (welcome == nullptr) {
    be_over();  // rejected
    return;
  }
  if (machine_.now() - knocked_at_ > machine_.cluster().options().heartbeat_timeout / 2) {
    give_up_knocking();  // the coordinator may not believe in this answer any more
    return;
  }
  if (voter_.promise() != node_.promise) {
    give_up_knocking();  // it gave its vote since it said what it is bound by
  } else {
    follow(*welcome, order.stamp);
  }
}

// --- Following ------------------------------------------------------------------------------

void ModelAgent::follow(const Welcome& welcome, Duration stamp) {
  state_ = State::following;
  followed_ = welcome.term;
  voter_.follow(followed_, welcome.coordinator);
  connection_ = std::exchange(knocking_, std::nullopt);
  local_ = false;
  election_.reset();
  called_.reset();
  begin_lease(knocked_at_);
  lease_->take_stamp(machine_.now(), stamp);
}

void ModelAgent::obey(const Order& order) {
  const Command& command = *order.command;
  if (std::holds_alternative<Welcome>(command)) {
    lease_->take_stamp(machine_.now(), order.stamp);
    followed_ = std::get<Welcome>(command).term;
    voter_.follow(followed_, std::get<Welcome>(command).coordinator);
  } else if (const auto* assign = std::get_if<AssignWorld>(&command)) {
    on_assigned(*assign);
  } else if (const auto* stop = std::get_if<StopWorkers>(&command)) {
    if (newest_ == stop->attempt) {
      workers_.stop(stop->attempt, stop->how);
    }
  } else if (const auto* told = std::get_if<TellStandbys>(&command)) {
    on_heir(*told, order.place);
  } else if (const auto* story = std::get_if<TellStory>(&command)) {
    if (heir_) {
      heir_->attempt = story->attempt;
      memory_.heard_of(story->attempt);
      heir_story_ = story->so_far;
    }
  } else if (const auto* prepare = std::get_if<Prepare>(&command)) {
    if (!voter_.prepared(prepare->configuration.number, prepare->term)) {
      return;
    }
    followed_ = prepare->term;
    if (holds(prepare->configuration, node_.voter)) {
      announced(prepare->term, prepare->attempt, prepare->configuration);
    }
    lease_->take_stamp(machine_.now(), order.stamp);
    lease_->quorum_needed_soon(machine_.now());
    arm_lease();
    machine_.cluster().network().send(*connection_, Side::client,
                                      Report{std::make_shared<const Event>(ConfigurationPrepared{
                                                 {}, prepare->configuration.number}),
                                             order.stamp});
  } else if (std::holds_alternative<FinishJob>(command)) {
    if (workers_.live()) {
      machine_.cluster().observer().broken("the job ends while workers live");
    }
    be_over();
  } else if (std::holds_alternative<Reject>(command) || std::holds_alternative<Release>(command)) {
    be_over();
  }
}

void ModelAgent::on_heir(const TellStandbys& told, int place) {
  heir_ = told.replicated;
  heir_story_ = told.so_far;
  place_ = place;
  announced(told.replicated.term, told.replicated.attempt, told.replicated.configuration);
  say(StandbyKnows{{}, told.replicated.configuration.number});
}

/// Its coordinator is where a job begins: who begins there knows that it is no more.
bool ModelAgent::at_endpoint() const {
  return !local_ && leading_ == 0;
}

void ModelAgent::announced(Term term, AttemptNumber attempt, const Configuration& configuration) {
  memory_.announced(term, attempt, configuration.number,
                    static_cast<int>(configuration.voters.size()), at_endpoint());
}

void ModelAgent::on_assigned(const AssignWorld& order) {
  const World& world = order.world;
  if (newest_ && world.attempt <= *newest_) {
    return;
  }
  newest_ = world.attempt;
  if (machine_.cluster().options().failover) {
    followed_ = order.term;
    voter_.assigned(order.configuration, world.attempt, order.term);
    memory_.assigned(order.term, world.attempt, order.configuration, world.group_rank,
                     at_endpoint());
    if (heir_ && heir_->term < order.term) {
      heir_.reset();  // others are the standbys now
    }
  }
  workers_.assign(world);
}

// --- The lease ------------------------------------------------------------------------------

/// On a socket pair nothing is ever due.
void ModelAgent::begin_lease(Instant asked_at) {
  const bool beats = !local_ && machine_.cluster().options().heartbeats;
  newest_.reset();
  held_ = farewell_ = false;
  lease_.emplace(beats ? machine_.cluster().options().heartbeat_timeout : Duration(0),
                 machine_.now());
  lease_->begin(machine_.now(), asked_at);
  check_lease();
}

void ModelAgent::on_beat_answer(const BeatAnswer& answer) {
  if (lease_->answered(machine_.now(), {machine_.cluster().options().heartbeat_timeout,
                                        answer.stamp, answer.quorum_age})) {
    machine_.cluster().network().send(*connection_, Side::client, Echo{answer.stamp});
  }
  arm_lease();
}

void ModelAgent::check_lease() {
  Network& network = machine_.cluster().network();
  const bool unread = network.unread(*connection_, Side::client);
  switch (lease_->time_passed(machine_.now(), unread)) {
    case FollowerLease::Step::wait:
    case FollowerLease::Step::look_again:
      break;
    case FollowerLease::Step::beat:
      network.send(*connection_, Side::client, Beat{lease_->newest_stamp()});
      break;
    case FollowerLease::Step::lost:
      lose(false);
      return;
  }
  arm_lease();
}

void ModelAgent::arm_lease() {
  const auto due = lease_->due();
  if (!due) {
    return;
  }
  machine_.later(*due - machine_.now(), [this, which = ++armed_] {
    if (which == armed_ && state_ == State::following && !held_) {
      check_lease();
    }
  });
}

// --- Losing it ------------------------------------------------------------------------------

void ModelAgent::lose(bool closed) {
  if (state_ != State::following) {
    return;
  }
  state_ = State::losing;
  contact_ = lease_->stamp_came_at();
  saw_close_ = closed;
  leave();
  workers_.fence();
}

/// Nothing is obeyed any more, and the connection is held until the workers are gone.
void ModelAgent::leave() {
  Network& network = machine_.cluster().network();
  network.send(*connection_, Side::client, Leaving{});
  network.hold(*connection_, Side::client);
  held_ = true;
}

void ModelAgent::depose() {
  if (state_ != State::leading) {
    return;
  }
  machine_.cluster().network().close(*connection_, Side::client);
  connection_.reset();
  coordinator_->resign();
  coordinator_.reset();
  node_.hosts_coordinator = false;
  state_ = State::losing;
  contact_ = machine_.now();
  saw_close_ = false;
  workers_.fence();
}

/// After fence().
void ModelAgent::workers_gone() {
  machine_.later(Duration(0), [this] { quiet(); });
}

void ModelAgent::quiet() {
  if (state_ != State::losing) {
    return;
  }
  if (connection_) {
    machine_.cluster().network().close(*connection_, Side::client);
    connection_.reset();
  }
  if (!machine_.cluster().options().failover) {
    be_over();
    return;
  }
  state_ = State::seeking;
  voter_.lost(contact_, saw_close_);
  if (heir_) {
    election_.emplace(node_.voter, *heir_, static_cast<std::size_t>(place_),
                      ElectionTimeouts::of(machine_.cluster().options().heartbeat_timeout),
                      voter_.promise().term, machine_.now());
  }
  seek_since_ = machine_.now();
  look_again();
  pursue();
}

void ModelAgent::on_call(const Called& call) {
  if (coordinator_) {
    if (call.term > coordinator_->term()) {
      called_ = call;
      coordinator_->hear_of(call.term);
    } else if (call.term < coordinator_->term()) {
      const Called own{coordinator_->term(), machine_.index()};
      machine_.cluster().ask(machine_.index(), call.machine,
                             [own](ModelAgent& other) { other.on_outranked(own); });
    }
    return;
  }
  if (state_ == State::following && call.term > followed_) {
    leave();
    called_ = call;
    state_ = State::losing;
    contact_ = machine_.now();
    saw_close_ = false;
    workers_.fence();
  } else if (state_ == State::losing || (state_ == State::seeking && !called_)) {
    called_ = call;
    look();
  }
}

/// The answer to a call of this coordinator.
void ModelAgent::on_outranked(const Called& by) {
  if (coordinator_ && by.term > coordinator_->term()) {
    called_ = by;
    coordinator_->hear_of(by.term);
  }
}

}  // namespace ddprun::sim
