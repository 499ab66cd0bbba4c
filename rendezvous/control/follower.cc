#include "rendezvous/control/follower.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <utility>

#include "rendezvous/base/network_interfaces.h"
#include "rendezvous/control/held_world.h"
#include "rendezvous/control/join.h"
#include "rendezvous/control/leading.h"
#include "rendezvous/control/link_discovery.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/peer_server.h"
#include "rendezvous/control/random_voter_id.h"
#include "rendezvous/control/service_lookup.h"
#include "rendezvous/control/vote_collector.h"
#include "rendezvous/node/leader_io.h"
#include "rendezvous/node/node.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

Instant now() {
  return Clock::now().time_since_epoch();
}

NodeOptions node_options(const FollowerOptions& options) {
  return {
      options.endpoints,         options.node,     options.is_host,           options.join_timeout,
      options.heartbeat_timeout, options.failover, options.service != nullptr};
}

}  // namespace

struct Follower::Impl : std::enable_shared_from_this<Follower::Impl>,
                        private CoordinatorOrders,
                        private ServiceLookup::Handler {
  Impl(asio::io_context& the_io, FollowerOptions the_options, FollowerHandler& the_handler,
       CoordinatorHooks the_led_hooks, std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        options(std::move(the_options)),
        handler(the_handler),
        led_hooks(std::move(the_led_hooks)),
        log(std::move(the_log)),
        node(node_options(options)),
        timer(the_io),
        held_world(the_io, log, handler),
        service_lookup(ServiceLookup::create(io, options.service, *this, log)) {}

  /// For callbacks from the loop: they do nothing once this object is gone, or has failed.
  template <class Action>
  auto while_alive(Action action) {
    return [weak = weak_from_this(), action](auto&&... arguments) {
      if (const auto self = weak.lock(); self && !self->gone) {
        action(*self, std::forward<decltype(arguments)>(arguments)...);
      }
    };
  }

  // --- Node and its timer -------------------------------------------------------------------

  /// An input that arises while an action is carried out waits: Node is never entered twice. So the
  /// actions of one input are complete before the next input is looked at, as in the simulation.
  void step(NodeInput input) {
    inputs.push_back(std::move(input));
    if (inputs.size() > 1) {
      return;
    }
    const auto alive = shared_from_this();
    while (!inputs.empty()) {
      for (NodeAction& action : node.step(now(), std::move(inputs.front()))) {
        std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
      }
      inputs.pop_front();
    }
    arm_timer();
  }

  void arm_timer() {
    const auto due = gone ? std::nullopt : node.next_deadline();
    // Most inputs move no deadline, and a timer that is set again costs a system call.
    if (due == armed_for) {
      return;
    }
    armed_for = due;
    timer.cancel();
    if (due) {
      timer.expires_at(Clock::time_point(*due));
      timer.async_wait(while_alive([](Impl& self, boost::system::error_code failed) {
        if (!failed) {
          self.armed_for.reset();
          self.step(NodeTimePassed{});
        }
      }));
    }
  }

  void carry_out(const LogLine& line) {
    log->log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
  }

  // --- Searching ----------------------------------------------------------------------------

  void start() {
    // Static ranks and single nodes have one coordinator, which no other agent can replace: nobody
    // votes, and this agent listens for no one.
    if (!options.failover) {
      step(NodeStarted{});
      return;
    }
    const std::weak_ptr<Impl> weak = weak_from_this();
    peer_server = PeerServer::create(
        io, options.endpoints,
        [weak](const message::Message& question, bool from_here) {
          const auto self = weak.lock();
          return self ? self->answer(question, from_here) : std::nullopt;
        },
        options.coordinator.credentials, log);
    peer_server->open(while_alive([](Impl& self, const Result<void>& opened) {
      if (!opened) {
        self.fail(opened.error());
        return;
      }
      // The hello names this port and these addresses: others call this agent there after a loss.
      self.step(NodeStarted{random_voter_id(), own_addresses(self.options.endpoints.front().host),
                            self.peer_server->port()});
    }));
  }

  /// Assigning the new search destroys the one before, and its callback is not called any more.
  void carry_out(SearchLeader order) {
    search = join_endpoint(
        io,
        SearchRequest{std::move(order.places), node.description(), order.is_host, order.timeout,
                      order.by_endpoint, addresses_text(interface_addresses())},
        options.coordinator.credentials,
        while_alive([](Impl& self, Result<Joined> joined) { self.on_joined(std::move(joined)); }),
        log);
  }

  void carry_out(const StopSearch&) {
    search.reset();
    service_lookup->stop();
  }

  void carry_out(const AskService& order) {
    search.reset();
    service_lookup->start(order.dead, node.description());
  }
  bool on_service(NodeInput said) override {
    step(std::move(said));
    return node.state() == Node::State::leading;
  }

  void on_joined(Result<Joined> joined) {
    if (!joined) {
      step(SearchFailed{joined.error(), was_rejected(search)});
    } else if (auto* host = std::get_if<JoinedAsHost>(&*joined)) {
      handed.bound = std::move(host->listener);
      options.coordinator.endpoint_note = host->note;
      step(EndpointBound{host->bound.port, random_job_instance()});
    } else {
      handed.answered = std::move(std::get<JoinedAsClient>(*joined));
      // FollowLeader takes the socket in this step. Otherwise Node does not want this coordinator,
      // and the socket closes.
      step(HelloAccepted{handed.answered->accepted, handed.answered->peer,
                         handed.answered->asked_at.time_since_epoch(),
                         handed.answered->at_endpoint});
      handed.answered.reset();
    }
  }

  // --- What others ask ----------------------------------------------------------------------

  /// The answer to a call does not depend on what comes of it. The call itself waits for the next
  /// turn of the loop, because it may close the very listener that asks here.
  std::optional<message::Message> answer(const message::Message& question, bool from_here) {
    if (const auto* call = std::get_if<message::Follow>(&question)) {
      asio::post(io, while_alive([call = *call](Impl& self) { self.step(CalledByLeader{call}); }));
      return node.answer_to_call();
    }
    handed.said.reset();
    step(AskedByPeer{question, from_here});
    return std::exchange(handed.said, std::nullopt);
  }

  void carry_out(AnswerPeer order) { handed.said = std::move(order.answer); }

  // --- Following ----------------------------------------------------------------------------

  void carry_out(const ListenAtFirstEndpoint&) {
    options.service ? void() : peer_server->listen_at_first_endpoint();
  }

  void carry_out(const LeaveFirstEndpoint&) {
    if (peer_server) {
      peer_server->leave_first_endpoint();
    }
  }

  /// The coordinator accepted the hello at `asked_at` at the earliest, so the lease counts from
  /// there.
  void carry_out(const FollowLeader&) {
    connect(std::move(handed.answered->connection), handed.answered->accepted,
            handed.answered->asked_at);
  }

  void connect(Channel connection, std::optional<message::Accepted> greeted,
               Clock::time_point asked_at = Clock::time_point::max()) {
    client = CoordinatorClient::create(io, std::move(connection), greeted, node.description(),
                                       options.heartbeat_timeout, *this, log, asked_at);
    handler.on_following();
  }

  // Node sees each order before the agent does: it has stored the attempt, the configuration and
  // the term by the time that workers start.
  void told(const message::Message& news) override { step(ToldByLeader{news}); }
  /// Node decides inside of this step whether it keeps the state; the client needs that answer now.
  bool voter_state(const message::VoterState& state) override {
    handed.acknowledged = false;
    step(ToldByLeader{state});
    return handed.acknowledged;
  }
  void assign(const message::Assigned& order) override {
    step(ToldByLeader{order});
    // Static ranks meet at the endpoint itself, which this agent has reached.
    held_world.hold(order.world, !options.failover ? std::string()
                                 : coordinator     ? coordinator->common_address()
                                                   : client->peer_address());
  }
  void stop(const message::Stop& order) override {
    held_world.release();
    handler.on_stop(order);
  }
  /// First the search and the first endpoint end: the next job may need the port.
  void finish(const JobSummary& summary) override {
    held_world.release();
    give_up();
    handler.on_finished(summary);
  }
  void waiting(const RendezvousStatus& table) override { handler.on_waiting(table); }
  void leave_asked() override { handler.on_leave_asked(); }
  void drain_answered(const std::string& why_not) override {
    if (!gone) {
      handler.on_drain_answered(why_not);
    }
  }
  NodeEnvironment environment() const override { return options.environment; }
  void rejected(const Error& why) override { fail(why); }
  void lost(const CoordinatorLost& how) override {
    held_world.release();
    step(LeaderLost{how.why, how.clause, how.last_contact.time_since_epoch(), how.closed});
  }

  /// The client sends StateKept itself: it has the connection, whose beats change with it.
  void carry_out(const AcknowledgeState&) { handed.acknowledged = true; }

  void carry_out(const LeaveLeader&) { client->leave(); }

  void carry_out(const CloseConnection&) { client.reset(); }

  void carry_out(const FenceWorkers& order) { handler.on_lost(order.why); }

  // --- Election -----------------------------------------------------------------------------

  /// Each address of a voter has a quarter of the heartbeat timeout: one that leads nowhere must
  /// not hold up the election.
  void carry_out(const AskVotes& order) {
    if (!ballot) {
      ballot = VoteCollector::open(
          io, options.node.job_id, options.heartbeat_timeout / 4, options.coordinator.credentials,
          {while_alive([](Impl& self, VoterId from, const Vote& vote) {
             self.step(VoteReceived{from, vote});
           }),
           while_alive([](Impl& self, VoterId from) { self.step(VoterGone{from}); }),
           while_alive(
               [](Impl& self, const message::Moved& leader) { self.step(LeaderNamed{leader}); })});
    }
    for (const message::VoterAddress& voter : order.voters) {
      ballot->ask(voter, order.request);
    }
  }

  void carry_out(const StopAsking&) { ballot.reset(); }

  // --- Leading ------------------------------------------------------------------------------

  /// An agent comes to lead in two ways. It has bound the first endpoint, where a job begins; or it
  /// was elected, and leads at the port where it listened before, which the other agents know.
  void carry_out(BeginLeading order) {
    Fd listener;
    if (order.at_bound_endpoint) {
      listener = std::move(handed.bound);
      links = open_to_others(io, options, *log);
      if (peer_server) {
        peer_server->give_way_to(node.description().port);
      }
    } else {
      listener = peer_server->release_listener();
    }
    // After the listener is settled: only now it is known where this agent listens besides.
    lead(std::move(listener),
         leading_options(options, node.description(), std::move(order), peer_server.get()));
  }

  /// The coordinator's own agent is a client like all others, over a socket pair: one code path for
  /// every node, and the same messages.
  void lead(Fd listener, CoordinatorOptions led) {
    CoordinatorHooks hooks = led_hooks;
    if (options.failover) {
      hooks.deposed = while_alive([](Impl& self, const StepDown& order) {
        self.step(LeaderDeposed{order.why, order.by, order.so_far});
      });
    }
    coordinator =
        Coordinator::create(io, std::move(listener), std::move(led), std::move(hooks), log);
    auto local = coordinator->connect_local();
    if (!local) {
      fail(local.error());
      return;
    }
    connect(std::move(*local), std::nullopt);
  }

  /// A deposed leader becomes an agent that can be asked and called, at the same port. Its client
  /// goes first: the other end of its socket pair belongs to the coordinator.
  void carry_out(const StopLeading& order) {
    client.reset();
    Fd listener = coordinator->resign(order.why);
    coordinator.reset();
    links.reset();
    peer_server->reopen(std::move(listener));
  }

  // --- The end ------------------------------------------------------------------------------

  void give_up() {
    node.stop_searching();
    carry_out(StopSearch{});
    links.reset();
    ballot.reset();
    carry_out(LeaveFirstEndpoint{});  // the next job finds it free
    if (coordinator) {
      coordinator->close_port();  // so does an agent that is started in this one's place
    }
    arm_timer();
  }

  void carry_out(const GiveUp& order) { fail(order.why); }

  /// Posted, because the owner may destroy this object in answer, and a step may be under way.
  void fail(const Error& why) {
    gone = true;
    held_world.drop();
    asio::post(io, [self = shared_from_this(), why] {
      self->give_up();
      self->handler.on_failed(why);
    });
  }

  asio::io_context& io;
  FollowerOptions options;
  FollowerHandler& handler;
  CoordinatorHooks led_hooks;
  std::shared_ptr<spdlog::logger> log;
  Node node;
  std::deque<NodeInput> inputs;  ///< the first one is being dealt with
  bool gone = false;             ///< it failed, or its owner let go of it
  asio::steady_timer timer;
  std::optional<Instant> armed_for;
  HeldWorld held_world;  ///< assigned, and not told to the agent yet
  JoinHandle search;
  std::shared_ptr<ServiceLookup> service_lookup;  ///< null: nodes vote
  std::shared_ptr<PeerServer> peer_server;        ///< null in a job without failover
  std::unique_ptr<CoordinatorClient> client;
  std::unique_ptr<Coordinator> coordinator;
  std::shared_ptr<LinkAnswerer> links;    ///< while this node hosts the first endpoint
  std::shared_ptr<VoteCollector> ballot;  ///< of the election
  /// What one step hands to another place of this shell.
  struct Handed {
    Fd bound;                                ///< the endpoint's, for BeginLeading
    std::optional<JoinedAsClient> answered;  ///< for FollowLeader
    std::optional<message::Message> said;    ///< AnswerPeer
    bool acknowledged = false;               ///< AcknowledgeState
  } handed;
};

Follower::Follower(asio::io_context& io, FollowerOptions options, FollowerHandler& handler,
                   CoordinatorHooks led, std::shared_ptr<spdlog::logger> log)
    : impl_(std::make_shared<Impl>(io, std::move(options), handler, std::move(led),
                                   std::move(log))) {}

Follower::~Follower() {
  impl_->gone = true;
  impl_->held_world.drop();
  impl_->give_up();
}

void Follower::start() {
  impl_->start();
}

void Follower::quiet() {
  impl_->step(WorkersGone{});
}

void Follower::leaves() {
  impl_->step(LeaveWished{});
}

void Follower::drain(const std::string& node) {
  if (impl_->client) {
    impl_->client->drain(node);
  } else {
    impl_->handler.on_drain_answered("there is no coordinator to ask at this moment; ask again");
  }
}

void Follower::give_up() {
  impl_->give_up();
}

CoordinatorClient* Follower::client() const {
  return impl_->client.get();
}

Coordinator* Follower::coordinator() const {
  return impl_->coordinator.get();
}

/// The coordinator's node has no connection that shows it.
std::string Follower::own_address() const {
  return impl_->coordinator ? impl_->coordinator->common_address() : impl_->client->local_address();
}

const Node& Follower::node() const {
  return impl_->node;
}

}  // namespace ddprun
