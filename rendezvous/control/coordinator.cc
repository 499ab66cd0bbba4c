#include "rendezvous/control/coordinator.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/control/master_address.h"
#include "rendezvous/control/message_codec.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/membership/quorum.h"
#include "rendezvous/membership/trace.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

/// A connection that says nothing for this long is no agent's: these speak first, at once.
constexpr milliseconds kHelloTimeout{5'000};
/// Connections that have not said hello; the oldest makes room. Bounded by a quarter of the
/// descriptors too, so that a thousand silent strangers leave enough for agents and workers.
constexpr std::size_t kUngreetedMax = 4096;
/// How long agents may take to close after they were sent the summary.
constexpr milliseconds kDrainGrace{2'000};
/// Accepted in one turn of the loop.
constexpr int kAcceptsPerTurn = 64;
/// While the process has no descriptor to spare.
constexpr milliseconds kAcceptPause{100};
/// Addresses of strangers that are remembered, in order to log each once.
constexpr std::size_t kStrangersMax = 64;
/// Rejections that are remembered, in order to log each once: a node that is started again and
/// again with the same mistake is a row of the waiting table, not a flood.
constexpr std::size_t kRejectionsMax = 256;
/// First bytes of the store's protocol, which a store client may send to the endpoint (static
/// backend). Our own hello begins with 'D'.
constexpr unsigned char kStoreFirstByteMax = 0x08;

/// Before any time.
constexpr Instant kNever = Instant::min() / 2;
/// The quorum's age is looked at this often in a heartbeat timeout; in between the old figure
/// serves, which only makes it older.
constexpr int kQuorumLooks = 20;

std::size_t ungreeted_max() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return kUngreetedMax / 16;
  }
  return std::clamp<std::size_t>(limit.rlim_cur / 4, 16, kUngreetedMax);
}

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

MembershipOptions membership_options(const CoordinatorOptions& options) {
  return {options.job_id,        options.min_nodes,    options.max_nodes,
          options.max_restarts,  options.join_timeout, options.last_call_timeout,
          options.endpoint_note, options.self,         options.term,
          options.inheritance};
}

/// What a message of an agent means to membership; none: it says what only others say.
struct EventOf {
  NodeId id;
  std::optional<Event> operator()(message::Started& m) const {
    return WorkersStarted{id, m.attempt};
  }
  std::optional<Event> operator()(message::Failed& m) const {
    return WorkerFailed{id, m.attempt, std::move(m.record)};
  }
  std::optional<Event> operator()(message::Finished& m) const {
    return WorkersFinished{id, m.attempt, m.progress};
  }
  std::optional<Event> operator()(message::Stopped& m) const {
    return WorkersStopped{id, m.attempt, std::move(m.records), m.records_dropped, m.progress};
  }
  std::optional<Event> operator()(message::StopRequest& m) const {
    return StopRequested{id, m.signal};
  }
  std::optional<Event> operator()(message::GiveUp& m) const {
    return NodeGaveUp{id, std::move(m.why)};
  }
  std::optional<Event> operator()(message::HeirKnows& m) const {
    return StandbyKnows{id, m.roster};
  }
  std::optional<Event> operator()(message::RosterReady& m) const {
    return RosterPrepared{id, m.roster};
  }
  template <class Other>
  std::optional<Event> operator()(Other&) const {
    return std::nullopt;
  }
};

}  // namespace

struct Coordinator::Impl : std::enable_shared_from_this<Coordinator::Impl> {
  /// A connection and what it has become. NodeIds are given to connections, so that each is used
  /// once; a stranger uses one up too.
  struct Peer {
    enum class Stage : std::uint8_t { ungreeted, member, leaving };
    std::shared_ptr<Connection> connection;
    Stage stage = Stage::ungreeted;
    bool local = false;           ///< the socket pair of the hosting agent
    std::string address;          ///< of the peer, numeric
    std::string reached_address;  ///< the local address by which it came
    ElectorId elector{};
    Instant fresh = kNever;  ///< it is known to have followed at this time
  };

  Impl(asio::io_context& the_io, Fd the_listener, CoordinatorOptions the_options,
       CoordinatorHooks the_hooks, std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        options(std::move(the_options)),
        hooks(std::move(the_hooks)),
        log(std::move(the_log)),
        membership(membership_options(options), now()),
        acceptor(the_io),
        accept_timer(the_io),
        deadline_timer(the_io),
        drain_timer(the_io),
        quorum_timer(the_io) {
    for (message::ElectorAddress& one : options.electors) {
      const ElectorId id = one.elector;
      addresses[id] = std::move(one);
    }
    boost::system::error_code failed;
    acceptor.assign(the_listener.get(), failed);
    if (!failed) {
      (void)the_listener.release();
    }
  }

  /// A handler for the acceptor or a timer: not called when that was cancelled, nor when it was
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

  void wait_acceptable() {
    acceptor.async_wait(asio::posix::stream_descriptor::wait_read,
                        unless_gone([](Impl& self) { self.accept_some(); }));
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      Fd socket(::accept4(acceptor.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!socket) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          log->warn("cannot accept connections for now: {}", std::strerror(errno));
          drop_oldest_ungreeted();
          accept_timer.expires_after(kAcceptPause);
          accept_timer.async_wait(unless_gone([](Impl& self) { self.wait_acceptable(); }));
          return;
        }
        break;  // none left, or one that has gone again
      }
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      add_peer(std::move(socket), false);
    }
    wait_acceptable();
  }

  void add_peer(Fd socket, bool local) {
    const NodeId id{++last_id};
    Peer& peer = peers[id];
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
         [this, id](const ConnectionEnd& end) { on_ended(id, end); },
         [this, id] { feed(NodeHeard{id}); }, [this] { return quorum_age(); },
         [this, id](Connection::Clock::time_point sent) { on_echo(id, sent.time_since_epoch()); }});
    peer.connection->start();
    if (local) {
      return;  // it is nobody's guest, and never makes room
    }
    ungreeted.push_back(id);
    ++ungreeted_count;
    if (ungreeted_count > ungreeted_max()) {
      drop_oldest_ungreeted();
    }
    // Those at the front that have said hello since, or are gone, are not counted any more.
    while (!ungreeted.empty() && !is_ungreeted(ungreeted.front())) {
      ungreeted.pop_front();
    }
  }

  void set_stage(Peer& peer, Peer::Stage stage) {
    DDP_CHECK(stage != Peer::Stage::ungreeted, "what was said is not unsaid");
    if (peer.stage == Peer::Stage::ungreeted && !peer.local) {
      DDP_CHECK(ungreeted_count > 0, "every ungreeted connection is counted");
      --ungreeted_count;
    }
    peer.stage = stage;
  }

  bool is_ungreeted(NodeId id) const {
    const auto found = peers.find(id);
    return found != peers.end() && found->second.stage == Peer::Stage::ungreeted;
  }

  void drop_oldest_ungreeted() {
    while (!ungreeted.empty()) {
      const NodeId id = ungreeted.front();
      ungreeted.pop_front();
      if (is_ungreeted(id)) {
        give_away(id, {});
        return;
      }
    }
  }

  /// A connection that is no agent's: to the store where there is one at this port, else closed.
  void give_away(NodeId id, std::string bytes) {
    const Peer peer = std::move(peers.at(id));
    erase(id);
    const bool may_be_store =
        bytes.empty() || static_cast<unsigned char>(bytes.front()) <= kStoreFirstByteMax;
    if (hooks.foreign_connection && may_be_store && !over) {
      hooks.foreign_connection(peer.connection->release(), std::move(bytes));
      return;
    }
    peer.connection->close();
    if (!bytes.empty()) {
      feed(StrangerTurnedAway{peer.address, "it does not speak ddprun's protocol"});
    }
    if (strangers.size() < kStrangersMax && strangers.insert(peer.address).second) {
      log->warn(
          "closed a connection from {} that does not speak ddprun's protocol ({}); more from "
          "there are not reported",
          peer.address, bytes.empty() ? "it said nothing" : "other first bytes");
    }
  }

  void erase(NodeId id) {
    const auto found = peers.find(id);
    DDP_CHECK(found != peers.end(), "a peer is erased once");
    set_stage(found->second, Peer::Stage::leaving);
    peers.erase(found);
    check_drained();
  }

  void on_no_preamble(NodeId id, PreambleCheck check, std::string bytes) {
    if (check.verdict != PreambleVerdict::other_version) {
      give_away(id, std::move(bytes));
      return;
    }
    send(id, preamble());
    const std::string why = "it speaks version " + std::to_string(check.version) +
                            " of the control protocol, but the coordinator speaks version " +
                            std::to_string(kProtocolVersion);
    const std::string address = peers.at(id).address;
    dismiss(id, {why, "install the same ddprun on all nodes"});
    feed(StrangerTurnedAway{address, why});
  }

  void on_ended(NodeId id, const ConnectionEnd& end) {
    const bool was_member = peers.at(id).stage == Peer::Stage::member;
    erase(id);
    if (was_member) {
      feed(NodeLost{id, end.why, end.silent_for});
    }
  }

  // --- What agents say ----------------------------------------------------------------------

  void on_message(NodeId id, message::Message said) {
    Peer& peer = peers.at(id);
    if (const auto* ask = std::get_if<message::AskVote>(&said);
        ask != nullptr && peer.stage == Peer::Stage::ungreeted) {
      // Who asks lost this coordinator, which reigns.
      say_and_close(id,
                    message::VoteAnswer{
                        {VoteVerdict::follows, membership.reign().term(), {}, {}, {}, {}, false}});
      return;
    }
    if (const auto* follow = std::get_if<message::Follow>(&said);
        follow != nullptr && peer.stage == Peer::Stage::ungreeted) {
      on_follow(id, *follow);
      return;
    }
    const bool hello = std::holds_alternative<message::Hello>(said);
    if (hello != (peer.stage == Peer::Stage::ungreeted)) {
      break_off(id, "it broke the protocol: a hello comes first, and once");
      return;
    }
    if (hello) {
      set_stage(peer, Peer::Stage::member);
      NodeDescription node = std::get<message::Hello>(std::move(said)).node;
      // Only the socket pair comes from the agent that hosts this coordinator.
      node.hosts_coordinator = peer.local;
      peer.elector = node.elector;
      if (number(node.elector) != 0) {
        addresses[node.elector] = {node.elector, node.host_name, node.addresses, node.port};
      }
      send(id, preamble());
      feed(NodeJoined{id, std::move(node), peer.address});
      return;
    }
    if (const auto* ready = std::get_if<message::RosterReady>(&said)) {
      on_echo(id, Instant(ready->stamp));
    }
    if (auto event = std::visit(EventOf{id}, said)) {
      feed(std::move(*event));
    } else {
      break_off(id, "it broke the protocol: it said what only a coordinator says");
    }
  }

  void break_off(NodeId id, const std::string& why) {
    peers.at(id).connection->close();
    on_ended(id, {why, {}});
  }

  // --- Membership ---------------------------------------------------------------------------

  /// Commands are carried out after the event, and an event that arises meanwhile (a store that
  /// cannot be opened) waits: the state machine is never entered twice.
  void feed(Event event) {
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
      for (Command& command : membership.apply(at, std::move(next))) {
        if (log->should_log(spdlog::level::debug)) {
          log->debug("{}   {}", to_text(at), to_text(command));
        }
        std::visit([this](auto& order) { carry_out(std::move(order)); }, command);
      }
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
      self.feed(TimePassed{});
    }));
  }

  void carry_out(Welcome order) {
    send(order.node, encode(message::Accepted{order.term, Connection::stamp_now()}));
  }

  void carry_out(TellStandbys order) {
    const std::vector<message::ElectorAddress> electors = addresses_of(order.succession);
    for (std::size_t place = 0; place < order.standbys.size(); ++place) {
      send(order.standbys[place],
           encode_heir({static_cast<int>(place), order.succession, electors, order.so_far,
                        options.min_nodes, options.max_nodes, options.max_restarts}));
    }
  }

  void carry_out(TellStory order) {
    const std::string bytes = encode_story({order.attempt, std::move(order.so_far)});
    for (const NodeId node : order.standbys) {
      send(node, bytes);
    }
  }

  void carry_out(Prepare order) {
    const std::string bytes = encode(message::PrepareRoster{order.roster, Connection::stamp_now()});
    for (auto& [id, peer] : peers) {
      if (peer.stage == Peer::Stage::member) {
        peer.connection->send(bytes);
      }
    }
  }

  void carry_out(Reject order) {
    const auto found = peers.find(order.node);
    if (found == peers.end()) {
      return;
    }
    const std::string& address = found->second.address;
    if (rejections.size() < kRejectionsMax && rejections.insert(address + order.why).second) {
      log->warn("rejected a node at {}: {}", address, order.why);
    }
    dismiss(order.node, {std::move(order.why), std::move(order.todo)});
  }

  void carry_out(OpenStore order) {
    quorum_looked_at = quorum_contact = kNever;  // the roster may be another one
    store_open = false;
    if (auto port = hooks.open_store(order.attempt)) {
      store_open = true;
      store_port = *port;
      common_master_address = ddprun::common_address(reached_addresses());
    } else {
      events.push_back(StoreFailed{order.attempt, port.error().sentence()});
    }
  }

  void carry_out(AssignWorld order) {
    if (!store_open) {
      return;  // StoreFailed is the next event
    }
    const auto found = peers.find(order.node);
    if (found == peers.end()) {
      return;
    }
    const Peer& peer = found->second;
    order.world.master_port = store_port;
    // Who came by loopback is on this machine, where any address of it serves.
    order.world.master_addr = !options.master_addr.empty() ? options.master_addr
                              : peer.local || is_loopback_text(peer.reached_address)
                                  ? common_master_address
                                  : peer.reached_address;
    send(order.node, encode(message::Assigned{std::move(order.world), order.roster, order.term}));
  }

  void carry_out(StopWorkers order) {
    send(order.node, encode(message::Stop{order.attempt, std::move(order.reason)}));
  }

  void carry_out(TellWaiting order) {
    const std::string bytes = encode(message::Waiting{std::move(order.table)});
    for (const NodeId node : order.nodes) {
      send(node, bytes);
    }
  }

  void carry_out(WatchNode order) {
    if (const auto found = peers.find(order.node); found != peers.end()) {
      found->second.connection->watch();
    }
  }

  void carry_out(FinishJob order) {
    const std::string bytes = encode_summary(std::move(order.summary));
    over = true;
    // At once: who comes now belongs to the next job at this endpoint, and shall find it free.
    boost::system::error_code ignored;
    acceptor.close(ignored);
    accept_timer.cancel();
    for (auto& [id, peer] : peers) {
      if (peer.stage == Peer::Stage::member) {
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

  void dismiss(NodeId id, message::Rejected why) {
    Peer& peer = peers.at(id);
    set_stage(peer, Peer::Stage::leaving);
    peer.connection->send(encode(std::move(why)));
    peer.connection->close_after_flush();
  }

  /// This host as the agents name it.
  std::vector<std::string> reached_addresses() const {
    std::vector<std::string> reached;
    for (const auto& [id, peer] : peers) {
      if (peer.stage == Peer::Stage::member && !peer.local) {
        reached.push_back(peer.reached_address);
      }
    }
    return reached;
  }

  // --- Succession ---------------------------------------------------------------------------

  void on_echo(NodeId id, Instant sent) {
    if (const auto found = peers.find(id); found != peers.end()) {
      found->second.fresh = std::max(found->second.fresh, std::min(sent, now()));
    }
  }

  /// None where no workers live, or this coordinator needs nobody else for them to go on.
  std::optional<std::chrono::nanoseconds> quorum_age() {
    const Reign& reign = membership.reign();
    const std::size_t electors = reign.in_use().roster.electors.size();
    const JobState state = membership.state();
    const bool lives = state == JobState::running || state == JobState::stopping;
    if (!reign.enabled() || keeps_quorum(1, electors, true) || !lives) {
      return std::nullopt;
    }
    const Instant at = now();
    if (at - quorum_looked_at > options.heartbeat_timeout / kQuorumLooks) {
      quorum_looked_at = at;
      quorum_contact = std::max(quorum_contact, contact_with(reign.in_use().roster, at));
    }
    return at - quorum_contact;
  }

  /// When a quorum of the roster was last known to follow, all at once.
  Instant contact_with(const Roster& roster, Instant at) const {
    std::vector<Instant> fresh;
    bool in_roster = false;
    for (const auto& [id, peer] : peers) {
      if (peer.stage == Peer::Stage::member &&
          std::binary_search(roster.electors.begin(), roster.electors.end(), peer.elector)) {
        fresh.push_back(peer.local ? at : peer.fresh);
        in_roster = in_roster || peer.local;
      }
    }
    std::sort(fresh.rbegin(), fresh.rend());
    for (std::size_t count = 1; count <= fresh.size(); ++count) {
      if (keeps_quorum(count, roster.electors.size(), in_roster)) {
        return fresh[count - 1];
      }
    }
    return kNever;
  }

  /// This node's own workers have no heartbeat that would end them.
  void watch_quorum() {
    const bool needs = quorum_age().has_value();
    quorum_timer.expires_after(needs ? options.heartbeat_timeout / kQuorumLooks
                                     : options.heartbeat_timeout / 2);
    quorum_timer.async_wait(unless_gone([](Impl& self) {
      const auto age = self.quorum_age();
      if (age && *age >= self.options.heartbeat_timeout - self.options.heartbeat_timeout / 10) {
        self.depose("it was not in touch with a majority of the nodes for " +
                        std::to_string(std::chrono::round<milliseconds>(*age).count()) + " ms",
                    std::nullopt);
        return;
      }
      self.watch_quorum();
    }));
  }

  void depose(const std::string& why, std::optional<message::Follow> by) {
    if (!std::exchange(deposed, true)) {
      asio::post(io, [self = shared_from_this(), why, by = std::move(by)] {
        if (!self->gone) {
          self->hooks.deposed(why, by);
        }
      });
    }
  }

  void on_follow(NodeId id, const message::Follow& follow) {
    const bool later = follow.term > membership.reign().term() && follow.job_id == options.job_id;
    say_and_close(id, message::Moved{membership.reign().term(), {}, 0});
    if (later && hooks.deposed) {
      depose("a coordinator of a later term took over", follow);
    }
  }

  void say_and_close(NodeId id, const message::Message& said) {
    Peer& peer = peers.at(id);
    set_stage(peer, Peer::Stage::leaving);
    peer.connection->send(preamble() + encode(said));
    peer.connection->close_after_flush();
  }

  std::vector<message::ElectorAddress> addresses_of(const Succession& succession) const {
    std::vector<message::ElectorAddress> found;
    for (const Roster* roster : {&succession.roster, &succession.roster_before}) {
      for (const ElectorId elector : roster->electors) {
        const auto known = addresses.find(elector);
        const bool twice = roster != &succession.roster &&
                           std::binary_search(succession.roster.electors.begin(),
                                              succession.roster.electors.end(), elector);
        if (known != addresses.end() && !twice) {
          found.push_back(known->second);
        }
      }
    }
    return found;
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

  void close_all() {
    for (auto& [id, peer] : peers) {
      peer.connection->close();
    }
  }

  asio::io_context& io;
  CoordinatorOptions options;
  CoordinatorHooks hooks;
  std::shared_ptr<spdlog::logger> log;
  Membership membership;
  asio::posix::stream_descriptor acceptor;
  asio::steady_timer accept_timer;
  asio::steady_timer deadline_timer;
  asio::steady_timer drain_timer;
  asio::steady_timer quorum_timer;
  std::map<NodeId, Peer> peers;
  std::deque<NodeId> ungreeted;  ///< by age; may hold ids that are not ungreeted any more
  std::size_t ungreeted_count = 0;
  std::set<std::string> strangers;
  std::set<std::string> rejections;
  std::map<ElectorId, message::ElectorAddress> addresses;  ///< of all that ever were here
  Instant quorum_contact = kNever;
  Instant quorum_looked_at = kNever;
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
  auto impl = std::make_shared<Impl>(io, std::move(listener), std::move(options), std::move(hooks),
                                     std::move(log));
  if (!impl->acceptor.is_open()) {
    return Error{"cannot watch the listening socket of the rendezvous endpoint", {}, {}};
  }
  impl->wait_acceptable();
  impl->arm_deadline();
  if (impl->membership.reign().enabled() && impl->hooks.deposed) {
    impl->watch_quorum();
  }
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

Coordinator::Coordinator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Coordinator::~Coordinator() {
  impl_->gone = true;
  impl_->close_all();
}

Fd Coordinator::resign(const std::string& why) {
  impl_->gone = true;
  impl_->quorum_timer.cancel();
  impl_->deadline_timer.cancel();
  impl_->accept_timer.cancel();
  impl_->acceptor.cancel();
  const std::string farewell = encode(message::Farewell{why});
  for (auto& [id, peer] : impl_->peers) {
    peer.connection->send(farewell);
    peer.connection->close();
  }
  impl_->peers.clear();
  return Fd(impl_->acceptor.release());
}

std::vector<message::ElectorAddress> Coordinator::absent_electors() const {
  std::set<ElectorId> here;
  for (const auto& [id, peer] : impl_->peers) {
    if (peer.stage == Impl::Peer::Stage::member) {
      here.insert(peer.elector);
    }
  }
  std::vector<message::ElectorAddress> absent =
      impl_->addresses_of(impl_->membership.reign().in_use());
  std::erase_if(absent, [&](const auto& one) { return here.contains(one.elector); });
  return absent;
}

Term Coordinator::term() const {
  return impl_->membership.reign().term();
}

Result<Fd> Coordinator::connect_local() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error(errno, "cannot connect the agent to its own coordinator");
  }
  impl_->add_peer(Fd(ends[0]), true);
  return Fd(ends[1]);
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
