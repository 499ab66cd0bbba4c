#include "rendezvous/control/coordinator.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

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
#include "rendezvous/base/socket.h"
#include "rendezvous/control/acceptor.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/control/coordinator_config.h"
#include "rendezvous/control/coordinator_peer.h"
#include "rendezvous/control/drain.h"
#include "rendezvous/control/event_log.h"
#include "rendezvous/control/first_words.h"
#include "rendezvous/control/handshake_limits.h"
#include "rendezvous/control/leader_calls.h"
#include "rendezvous/control/master_address.h"
#include "rendezvous/control/service_voter.h"
#include "rendezvous/control/store_place.h"
#include "rendezvous/control/tls_words.h"
#include "rendezvous/control/turned_away.h"
#include "rendezvous/node/leader.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

Instant now() {
  return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace

struct Coordinator::Impl : std::enable_shared_from_this<Coordinator::Impl>,
                           private LeaderObserver,
                           private AcceptorHandler,
                           private ConnectionHandler,
                           private ServiceVoter::Handler {
  Impl(asio::io_context& the_io, CoordinatorOptions the_options, CoordinatorHooks the_hooks,
       std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        options(std::move(the_options)),
        hooks(std::move(the_hooks)),
        log(std::move(the_log)),
        leader(leader_options(options, hooks.deposed != nullptr), now()),
        event_log(the_io, options.event_log, event_job(options), leader.membership(), log),
        timer(the_io),
        turned_away(log),
        drain_timer(the_io) {
    leader.watch(event_log.active() || log->should_log(spdlog::level::debug) ? this : nullptr);
  }

  void start(Fd listener) {
    calls = LeaderCalls::create(io, options.other_endpoints, options.heartbeat_timeout / 4,
                                options.credentials,
                                [this](CallAnswered answered) { step(std::move(answered)); });
    acceptor = Acceptor::create(io, std::move(listener), *this, options.credentials);
    acceptor->start();
    if (options.service) {
      service = ServiceVoter::create(io, options.service, options.heartbeat_timeout, *this, log);
      service->join(NodeId{++last_id}, service_witness(options));
    }
    arm_timer();
  }

  /// A handler for a timer: not called when that was cancelled, or this object died meanwhile.
  template <class Action>
  auto unless_gone(Action action) {
    return [weak = weak_from_this(), action](boost::system::error_code failed) {
      if (const auto self = weak.lock(); self && !failed) {
        action(*self);
      }
    };
  }

  /// NodeIds are given to connections, so that each is used once; a stranger uses one up too.
  using Peer = CoordinatorPeer;

  // --- Connections --------------------------------------------------------------------------

  void on_accepted(Channel connection) override { add_peer(std::move(connection), false); }

  void on_exhausted(int errno_value, bool first) override {
    if (first) {
      log->warn("cannot accept connections: {}; raise ulimit -Hn", std::strerror(errno_value));
    }
    drop_oldest_ungreeted();
  }

  void add_peer(Channel channel, bool local) {
    const NodeId id{++last_id};
    Peer& peer = peers[id] = Peer::of(channel.socket.get(), local);
    ConnectionOptions how;
    how.heartbeat_timeout = local ? milliseconds(0) : options.heartbeat_timeout;
    how.preamble_timeout = local ? milliseconds(0) : kHelloTimeout;
    peer.connection = Connection::create(io, std::move(channel), how, *this, number(id));
    step(SessionOpened{id, local, peer.address});
    peer.connection->start();
    // This agent's own session never makes room for others.
    if (!local && ungreeted.insert(id).second && ungreeted.size() > max_unauthenticated()) {
      drop_oldest_ungreeted();
    }
  }

  void drop_oldest_ungreeted() {
    if (!ungreeted.empty()) {
      hand_over(*ungreeted.begin(), {});
    }
  }

  void hand_over(NodeId id, std::string bytes) {
    const Peer peer = std::move(peers.at(id));
    erase(id);
    step(SessionClosed{id, "it is no agent's", {}, false});
    Channel channel = peer.connection->release();
    if (options.credentials.any() && channel && !bytes.empty() && hooks.operator_connection) {
      return hooks.operator_connection(std::move(channel), std::move(bytes));
    }
    turn_away(channel.tls ? Fd() : std::move(channel.socket), peer.address, std::move(bytes));
  }

  void on_stranger(Channel connection, const std::string& address,
                   const std::string& bytes) override {
    turn_away(connection.tls ? Fd() : std::move(connection.socket), address, bytes);
  }

  /// A connection that is no agent's: to the store where that is, which has no TLS; else closed.
  void turn_away(Fd connection, const std::string& address, std::string bytes) {
    if (connection && hooks.foreign_connection && may_be_store_client(bytes) && !drain.begun()) {
      hooks.foreign_connection(std::move(connection), std::move(bytes));
      return;
    }
    connection.reset();
    if (!bytes.empty()) {
      step(StrangerTurnedAway{address, "it does not speak ddprun's protocol"});
    }
    turned_away.speaks_no_protocol(address, bytes.empty());
  }

  void on_refused(const std::string& address, const std::string& why) override {
    step(StrangerTurnedAway{address, why});
    turned_away.refused(address, why);
  }

  void erase(NodeId id) {
    ungreeted.erase(id);
    DDP_CHECK(peers.erase(id) == 1, "a peer is erased once");
    check_drained();
  }

  void on_no_preamble(std::uint64_t which, PreambleCheck check, std::string bytes) override {
    const NodeId id{which};
    const bool has_tls = is_tls_hello(bytes) && !options.credentials.any();
    if (check.verdict != PreambleVerdict::other_version && !has_tls) {
      hand_over(id, std::move(bytes));
      return;
    }
    send(id, preamble());
    const std::string address = peers.at(id).address;
    const TokenRefusal refusal = refusal_of_credentials(check.version, bytes);
    send_and_close(id, message::Rejected{refusal.why, refusal.todo});
    on_refused(address, refusal.why);
  }

  void on_ended(std::uint64_t which, const CloseReason& end) override {
    const NodeId id{which};
    erase(id);
    step(SessionClosed{id, end.why, end.silent_for, end.by_peer, end.by_reset});
  }

  void on_heard(std::uint64_t id) override { step(SessionHeard{NodeId{id}}); }
  void on_echoed(std::uint64_t id, std::chrono::steady_clock::time_point sent) override {
    step(SessionEchoed{NodeId{id}, sent.time_since_epoch()});
  }

  std::optional<std::chrono::nanoseconds> quorum_age() override {
    return leader.advertised_age(now());
  }

  void on_message(std::uint64_t which, message::Message said) override {
    const NodeId id{which};
    if (const auto* hello = std::get_if<message::Hello>(&said);
        hello && !peers.at(id).take(*hello, options.credentials.any())) {
      return;
    }
    if (is_greeting(said)) {
      ungreeted.erase(id);
      send(id, preamble());
    }
    step(SessionTold{id, std::move(said)});
  }

  // --- Leader and its timer -----------------------------------------------------------------

  /// An input that arises while an action is carried out (a store that cannot be opened) waits:
  /// Leader is never entered twice.
  void step(LeaderInput input) {
    inputs.push_back(std::move(input));
    if (inputs.size() > 1) {
      return;
    }
    while (!inputs.empty()) {
      for (LeaderAction& action : leader.step(now(), std::move(inputs.front()))) {
        std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
      }
      event_log.write();
      inputs.pop_front();
    }
    arm_timer();
  }

  void arm_timer() {
    const auto due = gone ? std::nullopt : leader.next_deadline();
    if (due == armed_for) {
      return;
    }
    armed_for = due;
    timer.cancel();
    if (due) {
      timer.expires_at(std::chrono::steady_clock::time_point(*due));
      timer.async_wait(unless_gone([](Impl& self) {
        self.armed_for.reset();
        self.step(LeaderTimePassed{});
      }));
    }
  }

  void applied(Instant at, const Event& event, const std::vector<Command>& commands,
               const Membership& /*membership*/) override {
    log_applied(*log, at, event, commands);
    if (event_log.active()) {
      event_log.observe(at, event, commands);
    }
  }

  // --- What it decides ----------------------------------------------------------------------

  void carry_out(const SendMessage& order) {
    const std::string bytes = encode_bounded(*order.message, order.nodes.size());
    for (const NodeId node : order.nodes) {
      service && service->is(node) ? service->take(*order.message) : send(node, bytes);
    }
  }

  void on_service(LeaderInput input) override { step(std::move(input)); }
  void on_service_left() override { check_drained(); }

  void carry_out(const SendAndClose& order) {
    if (service && service->is(order.node)) {
      return;
    }
    if (const auto* rejected = std::get_if<message::Rejected>(order.message.get())) {
      turned_away.rejected(peers.at(order.node).address, rejected->why);
    }
    send_and_close(order.node, *order.message);
  }

  void carry_out(const DropSession& order) {
    if (const auto found = peers.find(order.node); found != peers.end()) {
      found->second.connection->close_by_reset();
      erase(order.node);
    }
  }

  /// Posted: its owner answers by resign(), which would end this object inside of its own step.
  void carry_out(StepDown order) {
    asio::post(io, [self = shared_from_this(), order = std::move(order)] {
      if (!self->gone) {
        self->hooks.deposed(order);
      }
    });
  }

  void carry_out(const WarnPeople& order) { log->warn("{}", order.text); }

  void carry_out(const WatchSession& order) {
    if (const auto found = peers.find(order.node); found != peers.end()) {
      found->second.connection->watch();
    }
  }

  void carry_out(const CallVoters& order) { calls->carry_out(order); }
  void carry_out(const CallEndpoints& order) { calls->carry_out(order); }

  void carry_out(OpenStore order) {
    store.reset();
    MembersReach members = reach_of(peers, leader.members());
    if (auto port = hooks.open_store(order.attempt, std::move(members.addresses))) {
      store = StorePlace{*port, ddprun::common_address(members.reached)};
    } else {
      step(StoreFailed{order.attempt, port.error().sentence()});
    }
  }

  void carry_out(AssignWorld order) {
    const auto found = peers.find(order.node);
    if (!store || found == peers.end()) {
      return;  // without a store, StoreFailed is the next input
    }
    store->tell(order.world, found->second, options.master_addr);
    send(order.node,
         encode(message::Assigned{std::move(order.world), order.configuration, order.term,
                                  order.others, order.instance, order.job_age}));
  }

  void carry_out(const EndJob&) {
    turned_away.sum_up();
    // At once: an agent that comes now belongs to the next job, which needs this endpoint.
    close_port();
    drain.begin();
    drain_timer.expires_after(kDrainGrace);
    drain_timer.async_wait(unless_gone([](Impl& self) {
      self.drain.grace_is_over();
      self.check_drained();
    }));
    service ? service->end_job() : void();
    check_drained();
  }

  void close_port() {
    acceptor->close();
    while (!ungreeted.empty()) {
      drop_oldest_ungreeted();
    }
  }

  void send(NodeId id, std::string_view bytes) {
    if (const auto found = peers.find(id); found != peers.end()) {
      found->second.connection->send(bytes);
    }
  }

  void send_and_close(NodeId id, const message::Message& last_word) {
    ungreeted.erase(id);
    peers.at(id).connection->send(encode(last_word));
    peers.at(id).connection->close_after_flush();
  }

  [[nodiscard]] bool service_left() const { return !service || service->has_left(); }

  void check_drained() {
    if (auto callback = drain.take(peers.empty(), service_left())) {
      drain_timer.cancel();
      asio::post(io, std::move(callback));
    }
  }

  asio::io_context& io;
  CoordinatorOptions options;
  CoordinatorHooks hooks;
  std::shared_ptr<spdlog::logger> log;
  Leader leader;
  EventLog event_log;
  std::shared_ptr<LeaderCalls> calls;
  std::shared_ptr<Acceptor> acceptor;
  asio::steady_timer timer;
  std::optional<Instant> armed_for;
  std::deque<LeaderInput> inputs;  ///< the first one is being dealt with
  std::map<NodeId, Peer> peers;
  std::set<NodeId> ungreeted;  ///< by age: ids rise
  TurnedAway turned_away;
  std::shared_ptr<ServiceVoter> service;  ///< null: nodes vote
  bool gone = false;                      ///< its owner let go of it
  std::uint64_t last_id = 0;
  std::optional<StorePlace> store;  ///< none: it could not be opened
  asio::steady_timer drain_timer;
  Drain drain;
};

std::unique_ptr<Coordinator> Coordinator::create(asio::io_context& io, Fd listener,
                                                 CoordinatorOptions options, CoordinatorHooks hooks,
                                                 std::shared_ptr<spdlog::logger> log) {
  DDP_CHECK(hooks.open_store != nullptr, "every attempt needs a store");
  auto impl = std::make_shared<Impl>(io, std::move(options), std::move(hooks), std::move(log));
  impl->start(std::move(listener));
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(impl)));
}

Coordinator::Coordinator(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Coordinator::~Coordinator() {
  impl_->gone = true;
  if (impl_->service) {
    impl_->service->leave();
  }
  for (auto& [id, peer] : impl_->peers) {
    peer.connection->close();
  }
}

void Coordinator::close_port() {
  impl_->close_port();
}

Fd Coordinator::resign(const std::string& why) {
  impl_->gone = true;
  impl_->event_log.resign(why);
  impl_->timer.cancel();
  impl_->calls.reset();
  if (impl_->service) {
    impl_->service->leave();
  }
  const std::string farewell = encode(message::Farewell{why});
  for (auto& [id, peer] : impl_->peers) {
    peer.take_leave(farewell, !impl_->ungreeted.contains(id));
  }
  impl_->peers.clear();
  return impl_->acceptor->release();
}

Result<Fd> Coordinator::connect_local() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return errno_error(errno, "cannot connect the agent to its own coordinator", {},
                       "raise the limit of open files (ulimit -n)");
  }
  impl_->add_peer(Fd(ends[0]), true);
  return Fd(ends[1]);
}

const Membership& Coordinator::membership() const {
  return impl_->leader.membership();
}

std::string Coordinator::common_address() const {
  return impl_->store ? impl_->store->common_address : std::string();
}

bool Coordinator::drained() const {
  return impl_->drain.is_over(impl_->peers.empty(), impl_->service_left());
}

void Coordinator::on_drained(std::function<void()> callback) {
  impl_->drain.call_when_over(std::move(callback));
  impl_->check_drained();
}

}  // namespace ddprun
