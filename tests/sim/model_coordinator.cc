#include "tests/sim/model_coordinator.h"

#include <algorithm>
#include <utility>

#include "rendezvous/membership/event_text.h"
#include "tests/sim/cluster.h"
#include "tests/sim/machine.h"

namespace ddprun::sim {
namespace {

/// How long agents may take to read that the job is over.
constexpr Duration kDrainGrace = seconds(2);
/// Chances of a coordinator whose machine vanishes as it tells the end: that it does so before the
/// last step, and that what it says then does not reach a node.
constexpr double kDiesBefore = 0.2;
constexpr double kSwallowed = 0.7;

template <class Kind>
bool holds(const std::vector<Command>& commands) {
  return std::any_of(commands.begin(), commands.end(),
                     [](const Command& command) { return std::holds_alternative<Kind>(command); });
}

}  // namespace

ModelCoordinator::ModelCoordinator(Machine& machine, const MembershipOptions& options,
                                   std::function<void()> deposed)
    : machine_(machine),
      leadership_(machine.cluster().new_leadership()),
      membership_(options, machine.now()),
      deposed_(std::move(deposed)),
      lease_(machine.cluster().options().heartbeat_timeout, *this),
      self_(options.self),
      inherited_(options.inheritance ? options.inheritance->known : ReplicatedState{}) {}

ModelCoordinator::~ModelCoordinator() {
  *here_ = false;
}

template <class Action>
void ModelCoordinator::later(Duration delay, Action action) {
  machine_.later(delay, [here = here_, action] {
    if (*here) {
      action();
    }
  });
}

void ModelCoordinator::begin(const std::set<VoterId>& votes) {
  Cluster& cluster = machine_.cluster();
  cluster.observer().leadership_begins(leadership_, machine_.index(), term(), self_,
                                       membership_.restarts_used(), votes, inherited_);
  arm();
  if (membership_.leadership().enabled()) {
    lease_.start(machine_.now());
    check_lease({});
  }
}

void ModelCoordinator::resign() {
  *here_ = false;
  Network& network = machine_.cluster().network();
  for (auto& [id, peer] : peers_) {
    if (!peer.gone) {
      network.send(peer.connection, Side::server, Farewell{});
      network.close(peer.connection, Side::server);
    }
  }
  machine_.cluster().observer().leadership_ends(leadership_);
}

void ModelCoordinator::end(bool kernel_lives) {
  *here_ = false;
  Network& network = machine_.cluster().network();
  for (auto& [id, peer] : peers_) {
    if (kernel_lives) {
      network.close(peer.connection, Side::server);
    } else {
      network.lose(peer.connection, Side::server);
    }
  }
  machine_.cluster().observer().leadership_ends(leadership_);
}

// --- Connections ----------------------------------------------------------------------------

NodeId ModelCoordinator::add(ConnectionId connection, bool local) {
  const NodeId id{++last_id_};
  Peer& peer = peers_[id];
  peer.connection = connection;
  peer.local = local;
  peer.heard_at = machine_.now();
  nodes_[connection] = id;
  return id;
}

void ModelCoordinator::on_message(ConnectionId connection, const Message& message) {
  const auto found = nodes_.find(connection);
  const NodeId id = found != nodes_.end() ? found->second : add(connection, false);
  Peer& peer = peers_.at(id);
  if (peer.gone) {
    if (const auto* report = std::get_if<Report>(&message)) {
      obey(id, *report);  // late; membership stands it
    }
    return;
  }
  peer.heard_at = machine_.now();
  std::visit([this, id](const auto& said) { obey(id, said); }, message);
  const auto still = peers_.find(id);
  if (still != peers_.end() && still->second.watched && *here_) {
    still->second.watched = false;
    feed(NodeHeard{id});
  }
}

void ModelCoordinator::obey(NodeId id, const Hello& hello) {
  Peer& peer = peers_.at(id);
  peer.greeted = true;
  peer.voter = hello.node.voter;
  NodeDescription node = hello.node;
  node.hosts_coordinator = peer.local;
  if (!peer.local && machine_.cluster().options().heartbeats) {
    watch_silence(id);
  }
  const int from = machine_.cluster().network().machine_of(peer.connection, Side::client);
  feed(NodeJoined{id, std::move(node), "n" + std::to_string(from)});
}

void ModelCoordinator::obey(NodeId id, const Beat& beat) {
  Peer& peer = peers_.at(id);
  if (beat.stamp.count() > 0) {
    echoed(peer, beat.stamp);
  }
  machine_.cluster().network().send(
      peer.connection, Side::server,
      BeatAnswer{machine_.now(), lease_.advertised_age(machine_.now())});
}

void ModelCoordinator::obey(NodeId id, const Echo& echo) {
  echoed(peers_.at(id), echo.stamp);
}

void ModelCoordinator::obey(NodeId id, const Leaving&) {
  peers_.at(id).leaves = true;
}

void ModelCoordinator::obey(NodeId id, const Report& report) {
  if (std::holds_alternative<ConfigurationPrepared>(*report.event)) {
    echoed(peers_.at(id), report.stamp);
  }
  Event event = *report.event;
  std::visit(
      [id](auto& one) {
        if constexpr (requires { one.node; }) {
          one.node = id;
        }
      },
      event);
  feed(std::move(event));
}

void ModelCoordinator::obey(NodeId id, const Closed& closed) {
  // Who never followed may only have changed its mind; a reset may have swallowed a last word.
  const Peer& peer = peers_.at(id);
  const bool died = peer.followed && !peer.leaves && !closed.reset;
  lost(id, closed.reset ? "its connection broke" : "its connection closed", Duration(0), died);
}

void ModelCoordinator::echoed(Peer& peer, Duration stamp) {
  const Duration sent = std::min(stamp, machine_.now());
  peer.fresh = peer.followed ? std::max(peer.fresh, sent) : sent;
  peer.followed = true;
}

void ModelCoordinator::lost(NodeId id, const std::string& why, Duration silent_for, bool died) {
  Peer& peer = peers_.at(id);
  if (peer.gone) {
    return;
  }
  peer.gone = true;
  machine_.cluster().network().close(peer.connection, Side::server);
  if (peer.greeted) {
    feed(NodeLost{id, why, silent_for, died});
  }
}

void ModelCoordinator::watch_silence(NodeId id) {
  const Duration timeout = machine_.cluster().options().heartbeat_timeout;
  Peer& peer = peers_.at(id);
  const Duration silent_for = machine_.now() - peer.heard_at;
  if (peer.gone) {
    return;
  }
  if (silent_for >= timeout) {
    if (!machine_.cluster().network().unread(peer.connection, Side::server)) {
      lost(id, "it was silent", silent_for, false);
      return;
    }
    peer.heard_at = machine_.now();  // this process was late
  }
  later(peer.heard_at + timeout - machine_.now(), [this, id] { watch_silence(id); });
}

// --- Membership -----------------------------------------------------------------------------

void ModelCoordinator::feed(Event event) {
  if (!*here_) {
    return;
  }
  events_.push_back(std::move(event));
  if (feeding_) {
    return;
  }
  feeding_ = true;
  Cluster& cluster = machine_.cluster();
  while (!events_.empty()) {
    Event next = std::move(events_.front());
    events_.pop_front();
    cluster.count_event();
    if (cluster.tracing()) {
      cluster.log(machine_.index(), to_text(next));
    }
    std::vector<Command> commands = membership_.apply(machine_.now(), next);
    if (holds<OpenStore>(commands)) {
      store_open_ = check_lease(lease_.restart(machine_.now()));
    }
    // A world that the shell keeps back was never handed out.
    std::erase_if(commands, [this](const Command& command) {
      return !store_open_ && std::holds_alternative<AssignWorld>(command);
    });
    cluster.observer().after(cluster.now(), leadership_, next, commands, membership_.state());
    for (Command& command : commands) {
      if (cluster.tracing()) {
        cluster.log(machine_.index(), "  " + to_text(command));
      }
      carry_out(std::move(command));
    }
  }
  feeding_ = false;
  arm();
}

void ModelCoordinator::arm() {
  const auto due = membership_.next_deadline();
  if (due == armed_) {
    return;
  }
  armed_ = due;
  if (due) {
    later(std::max(*due - machine_.now(), Duration(0)), [this, due] {
      if (armed_ == due) {
        armed_.reset();
        feed(TimePassed{});
      }
    });
  }
}

/// The machine may lose its power at any of the steps in which the end is told.
bool ModelCoordinator::dies_with(const Command& command) {
  const bool last = std::holds_alternative<FinishJob>(command);
  const bool before =
      std::holds_alternative<TellStandbys>(command) || std::holds_alternative<Prepare>(command);
  return machine_.cluster().end_is_fatal() &&
         (last || (before && membership_.state() == JobState::ending &&
                   machine_.random().chance(kDiesBefore)));
}

void ModelCoordinator::carry_out(Command command) {
  if (dies_with(command)) {
    dying_ = true;
    machine_.cluster().vanish_with_end(machine_);
  }
  const auto shared = std::make_shared<const Command>(std::move(command));
  if (const auto* told = std::get_if<TellStandbys>(shared.get())) {
    for (std::size_t place = 0; place < told->standbys.size(); ++place) {
      send_order(told->standbys[place], shared, static_cast<int>(place));
    }
  } else if (const auto* story = std::get_if<TellStory>(shared.get())) {
    for (const NodeId standby : story->standbys) {
      send_order(standby, shared);
    }
  } else if (std::holds_alternative<Prepare>(*shared) ||
             std::holds_alternative<FinishJob>(*shared)) {
    for (const auto& [id, peer] : peers_) {
      if (peer.greeted) {
        send_order(id, shared);
      }
    }
    if (std::holds_alternative<FinishJob>(*shared)) {
      later(kDrainGrace, [this] { machine_.exit(); });
    }
  } else if (const auto* watch = std::get_if<WatchNode>(shared.get())) {
    peers_.at(watch->node).watched = true;
  } else if (const auto* back = std::get_if<Disconnect>(shared.get())) {
    lost(back->node, "it came back on another connection", Duration(0), false);
  } else if (const auto* reject = std::get_if<Reject>(shared.get())) {
    send_order(reject->node, shared);
    dismiss(reject->node);
  } else if (!std::holds_alternative<TellWaiting>(*shared)) {
    std::visit(
        [&](const auto& order) {
          if constexpr (requires { order.node; }) {
            send_order(order.node, shared);
          }
        },
        *shared);
  }
}

void ModelCoordinator::send_order(NodeId id, const std::shared_ptr<const Command>& command,
                                  int place) {
  const Peer& peer = peers_.at(id);
  const bool swallowed = dying_ && machine_.random().chance(kSwallowed);
  if (!peer.gone && !swallowed) {
    machine_.cluster().network().send(peer.connection, Side::server,
                                      Order{command, machine_.now(), place});
  }
}

/// Nothing follows for it, nor from it.
void ModelCoordinator::dismiss(NodeId id) {
  Peer& peer = peers_.at(id);
  peer.gone = true;
  machine_.cluster().network().close(peer.connection, Side::server);
}

// --- Failover -------------------------------------------------------------------------------

bool ModelCoordinator::needed() const {
  const JobState state = membership_.state();
  return (state == JobState::running || state == JobState::stopping) &&
         !membership_.leadership().needs_nobody();
}

bool ModelCoordinator::needed_later() const {
  return membership_.leadership().in_use().configuration.voters.size() > 2;
}

Instant ModelCoordinator::contact(Instant now) const {
  std::vector<FollowerContact> followers;
  for (const auto& [id, peer] : peers_) {
    if (!peer.gone && peer.greeted && membership_.leadership().is_free(id)) {
      const Duration fresh = peer.followed ? peer.fresh : kNever;
      followers.push_back({peer.voter, peer.local ? now : fresh, peer.local});
    }
  }
  for (const VoterId dead : membership_.leadership().dead()) {
    followers.push_back({dead, now, false});
  }
  return quorum_contact(membership_.leadership().in_use().configuration, followers);
}

bool ModelCoordinator::outdated() const {
  return membership_.leadership().outdated();
}

bool ModelCoordinator::check_lease(const std::optional<std::string>& lost) {
  if (lost) {
    depose();
  } else if (const auto due = lease_.due()) {
    later(*due - machine_.now(), [this, due] {
      if (lease_.due() == due) {
        check_lease(lease_.time_passed(machine_.now()));
      }
    });
  }
  return !lost;
}

void ModelCoordinator::hear_of(Term later_term) {
  if (later_term > term()) {
    depose();
  }
}

void ModelCoordinator::depose() {
  if (!std::exchange(deposing_, true)) {
    later(Duration(0), [this] {
      const auto deposed = deposed_;  // it ends this object
      deposed();
    });
  }
}

std::vector<VoterId> ModelCoordinator::absent_voters() const {
  std::set<VoterId> here;
  for (const auto& [id, peer] : peers_) {
    if (!peer.gone && peer.greeted) {
      here.insert(peer.voter);
    }
  }
  std::vector<VoterId> absent;
  for (const Configuration* configuration : membership_.leadership().acquainted()) {
    for (const VoterId one : configuration->voters) {
      if (!here.contains(one)) {
        absent.push_back(one);
      }
    }
  }
  return absent;
}

}  // namespace ddprun::sim
