#include "rendezvous/control/coordinator.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/control/acceptor.h"
#include "rendezvous/control/agent_session.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/control/coordinator_config.h"
#include "rendezvous/control/event_log.h"
#include "rendezvous/control/follower_quorum.h"
#include "rendezvous/control/handshake_limits.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/master_address.h"
#include "rendezvous/membership/event_text.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/node/leader_lease.h"
#include "rendezvous/protocol/agent_event.h"
#include "rendezvous/protocol/message_codec.h"
#include "rendezvous/protocol/voter_addresses.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

/// A connection that says nothing for this long is no agent's: these speak first, at once.
constexpr milliseconds kHelloTimeout{5'000};
/// How long agents may take to close after they were sent the summary.
constexpr milliseconds kDrainGrace{2'000};
/// First bytes of the store's protocol, which a store client may send to the endpoint (static
/// backend). Our own hello begins with 'D'.
constexpr unsigned char kStoreFirstByteMax = 0x08;

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

struct Coordinator::Impl : std::enable_shared_from_this<Coordinator::Impl> {
  Impl(asio::io_context& the_io, CoordinatorOptions the_options, CoordinatorHooks the_hooks,
       std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        options(std::move(the_options)),
        hooks(std::move(the_hooks)),
        log(std::move(the_log)),
        membership(membership_options(options), now()),
        event_log(the_io, options.event_log, event_job(options), membership, log),
        deadline_timer(the_io),
        quorum(membership, peers),
        lease(options.heartbeat_timeout, quorum),
        lease_timer(the_io),
        drain_timer(the_io) {
    for (message::VoterAddress& one : options.voters) {
      addresses.add(std::move(one));
    }
  }

  void listen(Fd listener) {
    acceptor = Acceptor::create(
        io, std::move(listener), [this](Fd connection) { add_peer(std::move(connection), false); },
        [this](int failed) {
          log->warn("cannot accept connections: {}; raise ulimit -Hn", std::strerror(failed));
          drop_oldest_ungreeted();
        });
    acceptor->start();
  }

  /// A handler for a timer: not called when that was cancelled, nor when it was
  /// queued already while this object died.
  template <class Action>
  auto unless_gone(Action action) {
    return [weak = weak_from_this(), action](boost::system::error_code failed) {
      if (const auto self = weak.lock(); self && !failed) {
        action(*self);
      }
    };
  }

  // --- Connections --------------------------------------------------------------------------

  void add_peer(Fd socket, bool local) {
    const NodeId id{++last_id};
    AgentSession& peer = peers[id];
    peer.local = local;
    if (!local) {
      peer.address = peer_address_of(socket.get());
      peer.reached_address = local_address_of(socket.get());
    }
    ConnectionOptions how;
    how.heartbeat_timeout = local ? milliseconds(0) : options.heartbeat_timeout;
    how.preamble_timeout = local ? milliseconds(0) : kHelloTimeout;
    peer.connection = Connection::create(
        io, std::move(socket), how,
        {[this, id](message::Message said) { on_message(id, std::move(said)); },
         [this, id](PreambleCheck check, std::string bytes) {
           on_no_preamble(id, check, std::move(bytes));
         },
         [this, id](const CloseReason& end) { on_ended(id, end); },
         [this, id] { apply_event(NodeHeard{id}); }, [this] { return lease.advertised_age(now()); },
         [this, id](Connection::Clock::time_point sent) { on_echo(id, sent.time_since_epoch()); }});
    peer.connection->start();
    if (local) {
      return;  // it is nobody's guest, and never makes room
    }
    ungreeted.insert(id);
    if (ungreeted.size() > max_unauthenticated()) {
      drop_oldest_ungreeted();
    }
  }

  void set_stage(NodeId id, AgentSession::Stage stage) {
    DDP_CHECK(stage != AgentSession::Stage::ungreeted, "what was said is not unsaid");
    ungreeted.erase(id);
    peers.at(id).stage = stage;
  }

  void drop_oldest_ungreeted() {
    if (!ungreeted.empty()) {
      hand_over(*ungreeted.begin(), {});
    }
  }

  /// A connection that is no agent's: to the store where there is one at this port, else closed.
  void hand_over(NodeId id, std::string bytes) {
    const AgentSession peer = std::move(peers.at(id));
    erase(id);
    const bool may_be_store =
        bytes.empty() || static_cast<unsigned char>(bytes.front()) <= kStoreFirstByteMax;
    if (hooks.foreign_connection && may_be_store && !over) {
      hooks.foreign_connection(peer.connection->release(), std::move(bytes));
      return;
    }
    peer.connection->close();
    if (!bytes.empty()) {
      apply_event(StrangerTurnedAway{peer.address, "it does not speak ddprun's protocol"});
    }
    if (strangers.size() < kRememberedMax && strangers.insert(peer.address).second) {
      log->warn("closed a connection from {} that does not speak ddprun's protocol ({})",
                peer.address, bytes.empty() ? "it said nothing" : "other first bytes");
    }
  }

  void erase(NodeId id) {
    ungreeted.erase(id);
    DDP_CHECK(peers.erase(id) == 1, "a peer is erased once");
    check_drained();
  }

  void on_no_preamble(NodeId id, PreambleCheck check, std::string bytes) {
    if (check.verdict != PreambleVerdict::other_version) {
      hand_over(id, std::move(bytes));
      return;
    }
    send(id, preamble());
    const std::string why = versions_clause("it", check.version, "the coordinator");
    const std::string address = peers.at(id).address;
    send_and_close(id, message::Rejected{why, "install the same ddprun on all nodes"});
    apply_event(StrangerTurnedAway{address, why});
  }

  void on_ended(NodeId id, const CloseReason& end) {
    const AgentSession peer = peers.at(id);
    erase(id);
    if (peer.stage == AgentSession::Stage::member) {
      // Who never followed may have said hello, and gone to whom it had given its word.
      const bool died = end.by_peer && !peer.leaves && peer.fresh != kNever;
      apply_event(NodeLost{id, end.why, end.silent_for, died});
    }
  }

  // --- What agents say ----------------------------------------------------------------------

  void on_message(NodeId id, message::Message said) {
    AgentSession& peer = peers.at(id);
    if (peer.stage == AgentSession::Stage::ungreeted && answer_peer(id, said)) {
      return;
    }
    const bool hello = std::holds_alternative<message::Hello>(said);
    if (hello != (peer.stage == AgentSession::Stage::ungreeted)) {
      drop(id, "it broke the protocol: a hello comes first, and once");
      return;
    }
    if (hello) {
      set_stage(id, AgentSession::Stage::member);
      NodeDescription node = std::get<message::Hello>(std::move(said)).node;
      // Only the socket pair comes from the agent that hosts this coordinator.
      node.hosts_coordinator = peer.local;
      peer.voter = node.voter;
      if (number(node.voter) != 0) {
        addresses.add({node.voter, node.host_name, node.addresses, node.port});
      }
      send(id, preamble());
      apply_event(NodeJoined{id, std::move(node), peer.address});
      return;
    }
    if (std::holds_alternative<message::Leaving>(said)) {
      peer.leaves = true;
      return;
    }
    if (const auto* ready = std::get_if<message::ConfigurationReady>(&said)) {
      on_echo(id, Instant(ready->stamp));
    }
    if (auto event = agent_event(id, std::move(said))) {
      apply_event(std::move(*event));
    } else {
      drop(id, "it broke the protocol: it said what only a coordinator says");
    }
  }

  void drop(NodeId id, const std::string& why) {
    peers.at(id).connection->close();
    on_ended(id, {why, {}});
  }

  // --- Membership ---------------------------------------------------------------------------

  /// Commands are carried out after the event, and an event that arises meanwhile (a store that
  /// cannot be opened) waits: the state machine is never entered twice.
  void apply_event(Event event) {
    events.push_back(std::move(event));
    if (feeding) {
      return;
    }
    feeding = true;
    while (!events.empty()) {
      const Instant at = now();
      if (log->should_log(spdlog::level::debug)) {
        log->debug("{} {}", to_text(at), to_text(events.front()));
      }
      Event next = std::move(events.front());
      events.pop_front();
      for (Command& command : event_log.apply(membership, at, std::move(next))) {
        if (log->should_log(spdlog::level::debug)) {
          log->debug("{}   {}", to_text(at), to_text(command));
        }
        std::visit([this](auto& order) { execute(std::move(order)); }, command);
      }
      event_log.write();
    }
    feeding = false;
    arm_deadline();
  }

  void arm_deadline() {
    const auto due = membership.next_deadline();
    if (due == armed_for) {
      return;
    }
    armed_for = due;
    if (!due) {
      deadline_timer.cancel();
      return;
    }
    deadline_timer.expires_at(std::chrono::steady_clock::time_point(*due));
    deadline_timer.async_wait(unless_gone([](Impl& self) {
      self.armed_for.reset();
      self.apply_event(TimePassed{});
    }));
  }

  void execute(Welcome order) {
    send(order.node,
         encode(message::Accepted{order.term, order.coordinator, Connection::stamp_now()}));
  }

  void execute(TellStandbys order) {
    const auto voters = addresses.of(order.replicated.configurations());
    for (std::size_t place = 0; place < order.standbys.size(); ++place) {
      send(order.standbys[place],
           encode_standby_state({static_cast<int>(place), order.replicated, voters, order.so_far,
                                 options.min_nodes, options.max_nodes, options.max_restarts,
                                 options.require_same_env, options.heartbeat_timeout}));
    }
  }

  void execute(TellStory order) {
    send(order.standbys, encode_story({order.attempt, std::move(order.so_far)}));
  }

  void execute(const Prepare& order) {
    message::PrepareConfiguration told{order.configuration.number, order.term, 0, order.attempt,
                                       Connection::stamp_now()};
    const std::string to_others = encode(told);
    told.voters = static_cast<int>(order.configuration.voters.size());
    const std::string to_voters = encode(told);
    for (auto& [id, peer] : peers) {
      if (peer.stage == AgentSession::Stage::member) {
        peer.connection->send(holds(order.configuration, peer.voter) ? to_voters : to_others);
      }
    }
  }

  void execute(Reject order) {
    if (!peers.contains(order.node)) {
      return;
    }
    const std::string& address = peers.at(order.node).address;
    if (rejections.size() < kRememberedMax && rejections.insert(address + order.why).second) {
      log->warn("rejected a node at {}: {}", address, order.why);
    }
    send_and_close(order.node, message::Rejected{std::move(order.why), std::move(order.todo)});
  }

  void execute(OpenStore order) {
    store_open = false;
    if (!check_lease(lease.restart(now()))) {
      return;
    }
    if (auto port = hooks.open_store(order.attempt)) {
      store_open = true;
      store_port = *port;
      std::vector<std::string> reached;  // this host as the agents name it
      for (const auto& [id, peer] : peers) {
        if (peer.stage == AgentSession::Stage::member && !peer.local) {
          reached.push_back(peer.reached_address);
        }
      }
      common_master_address = ddprun::common_address(reached);
    } else {
      events.push_back(StoreFailed{order.attempt, port.error().sentence()});
    }
  }

  void execute(AssignWorld order) {
    if (!store_open) {
      return;  // StoreFailed is the next event
    }
    const auto found = peers.find(order.node);
    if (found == peers.end()) {
      return;
    }
    const AgentSession& peer = found->second;
    order.world.master_port = store_port;
    // Who came by loopback is on this machine, where any address of it serves.
    order.world.master_addr = !options.master_addr.empty() ? options.master_addr
                              : peer.local || is_loopback_text(peer.reached_address)
                                  ? common_master_address
                                  : peer.reached_address;
    send(order.node,
         encode(message::Assigned{std::move(order.world), order.configuration, order.term}));
  }

  void execute(StopWorkers order) {
    send(order.node,
         encode(message::Stop{order.attempt, std::move(order.reason), order.how, order.signal}));
  }

  void execute(Release order) { send(order.node, encode_summary(std::move(order.so_far))); }

  void execute(const TellWaiting& o) { send(o.nodes, encode(message::Waiting{o.table})); }

  void execute(const TellIncident& o) { send(o.nodes, encode(message::TellIncident{o.text})); }

  void execute(AskEnvironment ask) { send(ask.node, encode(message::AskEnvironment{})); }

  void execute(const TellEnvironments& order) { log->warn("{}", order.text); }

  void execute(WatchNode order) {
    if (const auto found = peers.find(order.node); found != peers.end()) {
      found->second.connection->watch();
    }
  }

  void execute(const Disconnect& order) {
    if (peers.contains(order.node)) {
      drop(order.node, "it came back on another connection");
    }
  }

  void execute(FinishJob order) {
    const std::string bytes = encode_summary(std::move(order.summary));
    over = true;
    // At once: who comes now belongs to the next job at this endpoint, and shall find it free.
    acceptor->close();
    for (auto& [id, peer] : peers) {
      if (peer.stage == AgentSession::Stage::member) {
        peer.connection->send(bytes);
      }
    }
    drain_timer.expires_after(kDrainGrace);
    drain_timer.async_wait(unless_gone([](Impl& self) {
      self.drain_grace_over = true;
      self.check_drained();
    }));
    while (!ungreeted.empty()) {
      drop_oldest_ungreeted();
    }
    check_drained();
  }

  void send(NodeId id, std::string_view bytes) {
    if (const auto found = peers.find(id); found != peers.end()) {
      found->second.connection->send(bytes);
    }
  }

  void send(const std::vector<NodeId>& nodes, std::string_view bytes) {
    for (const NodeId node : nodes) {
      send(node, bytes);
    }
  }

  void send_and_close(NodeId id, const message::Message& last_word) {
    set_stage(id, AgentSession::Stage::leaving);
    peers.at(id).connection->send(encode(last_word));
    peers.at(id).connection->close_after_flush();
  }

  // --- Failover -----------------------------------------------------------------------------

  void on_echo(NodeId id, Instant sent) {
    if (const auto found = peers.find(id); found != peers.end()) {
      found->second.fresh = std::max(found->second.fresh, std::min(sent, now()));
    }
  }

  void watch_quorum() {
    if (membership.leadership().enabled() && hooks.deposed) {
      lease.start(now());
      check_lease({});
    }
  }

  /// False: `lost` says why this coordinator leads no more.
  bool check_lease(std::optional<std::string> lost) {
    if (lost) {
      step_down(*lost, std::nullopt);
    } else if (const auto due = lease.due()) {
      lease_timer.expires_at(std::chrono::steady_clock::time_point(*due));
      lease_timer.async_wait(
          unless_gone([](Impl& self) { self.check_lease(self.lease.time_passed(now())); }));
    }
    return !lost;
  }

  void step_down(const std::string& why, std::optional<message::Follow> by) {
    if (!std::exchange(deposed, true)) {
      asio::post(io, [self = shared_from_this(), why, by = std::move(by)] {
        if (!self->gone) {
          self->hooks.deposed(why, by);
        }
      });
    }
  }

  /// What other agents ask and say, on connections of their own. False: it is nothing such.
  bool answer_peer(NodeId id, const message::Message& said) {
    const auto* follow = std::get_if<message::Follow>(&said);
    if (follow == nullptr && !std::holds_alternative<message::AskVote>(said)) {
      return false;
    }
    const bool ours = follow == nullptr || follow->job_id == options.job_id;
    const Term term = ours ? membership.leadership().term() : Term{};
    send(id, preamble());
    send_and_close(id, message::Moved{term, {}, 0});  // to a vote, too: a leader grants none
    const bool begins = !options.inheritance && !membership.attempt();
    if (follow != nullptr && hooks.deposed &&
        call_is_for(*follow, options.job_id, job_options(options), begins) &&
        outranks(*follow, term)) {
      step_down("a coordinator of a later term took over", *follow);
    }
    return true;
  }

  // --- The end ------------------------------------------------------------------------------
  [[nodiscard]] bool is_drained() const { return over && (peers.empty() || drain_grace_over); }

  void check_drained() {
    if (!is_drained() || drained_told || !drained_callback) {
      return;
    }
    drained_told = true;
    drain_timer.cancel();
    asio::post(io, std::move(drained_callback));
  }

  asio::io_context& io;
  CoordinatorOptions options;
  CoordinatorHooks hooks;
  std::shared_ptr<spdlog::logger> log;
  Membership membership;
  EventLog event_log;
  std::shared_ptr<Acceptor> acceptor;
  asio::steady_timer deadline_timer;
  std::map<NodeId, AgentSession> peers;
  FollowerQuorum quorum;
  LeaderLease lease;
  asio::steady_timer lease_timer;
  asio::steady_timer drain_timer;
  std::set<NodeId> ungreeted;  ///< by age: ids rise
  std::set<std::string> strangers;
  std::set<std::string> rejections;
  VoterAddresses addresses;
  bool deposed = false;
  bool gone = false;  ///< its owner let go of it
  std::uint64_t last_id = 0;
  std::deque<Event> events;
  bool feeding = false;
  std::optional<Instant> armed_for;
  bool store_open = false;
  std::uint16_t store_port = 0;
  std::string common_master_address;
  bool over = false;
  bool drain_grace_over = false;
  bool drained_told = false;
  std::function<void()> drained_callback;
};

Result<std::unique_ptr<Coordinator>> Coordinator::create(asio::io_context& io, Fd listener,
                                                         CoordinatorOptions options,
                                                         CoordinatorHooks hooks,
                                                         std::shared_ptr<spdlog::logger> log) {
  DDP_CHECK(hooks.open_store != nullptr, "every attempt needs a store");
  const int flags = ::fcntl(listener.get(), F_GETFL);
  if (flags < 0 || ::fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return errno_error(errno, "cannot use the listening socket of the rendezvous endpoint");
  }
  auto impl = std::make_shared<Impl>(io, std::move(options), std::move(hooks), std::move(log));
  impl->watch_quorum();
  impl->listen(std::move(listener));
  impl->arm_deadline();
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

Coordinator::Coordinator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Coordinator::~Coordinator() {
  impl_->gone = true;
  for (auto& [id, peer] : impl_->peers) {
    peer.connection->close();
  }
}

Fd Coordinator::resign(const std::string& why) {
  impl_->gone = true;
  impl_->event_log.resign(why);
  impl_->lease_timer.cancel();
  impl_->deadline_timer.cancel();
  const std::string farewell = encode(message::Farewell{why});
  for (auto& [id, peer] : impl_->peers) {
    peer.connection->send(farewell);
    peer.connection->close();
  }
  impl_->peers.clear();
  return impl_->acceptor->release();
}

std::vector<message::VoterAddress> Coordinator::absent_voters() const {
  std::set<VoterId> here;
  for (const auto& [id, peer] : impl_->peers) {
    if (peer.stage == AgentSession::Stage::member) {
      here.insert(peer.voter);
    }
  }
  return impl_->addresses.of(impl_->membership.leadership().acquainted(), here);
}

Result<Fd> Coordinator::connect_local() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error(errno, "cannot connect the agent to its own coordinator");
  }
  impl_->add_peer(Fd(ends[0]), true);
  return Fd(ends[1]);
}

const Membership& Coordinator::membership() const {
  return impl_->membership;
}

std::string Coordinator::common_address() const {
  return impl_->common_master_address;
}

bool Coordinator::drained() const {
  return impl_->is_drained();
}

void Coordinator::on_drained(std::function<void()> callback) {
  impl_->drained_callback = std::move(callback);
  impl_->check_drained();
}

}  // namespace ddprun
