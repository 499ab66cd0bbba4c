#include "rendezvous/control/follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "rendezvous/control/coordinator_config.h"
#include "rendezvous/control/join.h"
#include "rendezvous/control/leader_calls.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/peer_server.h"
#include "rendezvous/control/random_voter_id.h"
#include "rendezvous/control/vote_collector.h"
#include "rendezvous/protocol/voter_addresses.h"
#include "rendezvous/membership/election.h"
#include "rendezvous/membership/last_known_state.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Between tries at a coordinator that is not to be followed.
constexpr milliseconds kAgain{500};

Instant now() {
  return Clock::now().time_since_epoch();
}

}  // namespace

struct Follower::Impl : std::enable_shared_from_this<Follower::Impl> {
  enum class State : std::uint8_t { joining, following, leading, fencing, searching, over };

  Impl(asio::io_context& the_io, FollowerOptions the_options, FollowerHooks the_hooks,
       std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        options(std::move(the_options)),
        hooks(std::move(the_hooks)),
        log(std::move(the_log)),
        node(options.node),
        pursue_timer(the_io) {}

  template <class Action>
  auto unless_gone(Action action) {
    return [weak = weak_from_this(), action](error_code failed) {
      if (const auto self = weak.lock(); self && !failed && self->state != State::over) {
        action(*self);
      }
    };
  }

  // --- Joining ------------------------------------------------------------------------------

  void start() {
    if (!options.failover) {
      join(options.endpoints, options.is_host, options.join_timeout);
      return;
    }
    const std::weak_ptr<Impl> weak = weak_from_this();
    peer_server = PeerServer::create(
        io, options.endpoints,
        [weak](const message::Message& question) {
          const auto self = weak.lock();
          return self ? self->answer(question) : std::nullopt;
        },
        log);
    peer_server->open([weak](const Result<void>& opened) {
      if (const auto self = weak.lock(); self && self->state != State::over) {
        opened ? self->begin() : self->fail(opened.error());
      }
    });
  }

  void begin() {
    node.voter = random_voter_id();
    node.addresses = own_addresses(is_loopback_host(options.endpoints.front().host));
    node.port = peer_server->port();
    join(options.endpoints, options.is_host, options.join_timeout);
  }

  /// `by_endpoint`: these are the user's words, not an agent's.
  void join(const std::vector<Endpoint>& endpoints, std::optional<bool> is_host,
            milliseconds timeout, bool by_endpoint = true) {
    node.promise = voter.promise();
    node.past = memory.past();
    joining = join_endpoint(
        io, JoinRequest{endpoints, node, is_host, timeout, by_endpoint},
        [weak = weak_from_this()](Result<Joined> joined) {
          if (const auto self = weak.lock(); self && self->state != State::over) {
            self->on_joined(std::move(joined));
          }
        },
        log);
  }

  void on_joined(Result<Joined> joined) {
    if (!joined) {
      if (called && !was_rejected(joining)) {
        called.reset();  // who called is gone again
        begin_again();
        return;
      }
      fail(lost_why ? Error{lost_why->what + "; no other was found: " + joined.error().what,
                            joined.error().where, joined.error().todo}
                    : joined.error());
      return;
    }
    if (auto* host = std::get_if<JoinedAsHost>(&*joined)) {
      node.port = host->bound.port;
      began_here = true;
      if (peer_server) {
        peer_server->give_way_to(host->bound.port);
      }
      options.coordinator.endpoint_note = host->note;
      settle();
      lead(std::move(host->listener), options.coordinator);
      return;
    }
    auto& client = std::get<JoinedAsClient>(*joined);
    // An answer as old as half a lease: the coordinator may not believe in it any more.
    if (Clock::now() - client.asked_at > options.heartbeat_timeout / 2) {
      state = State::searching;
      again_later();
      return;
    }
    if (voter.promise() != node.promise) {
      search();  // it gave its vote since it said what it is bound by: it comes anew
      return;
    }
    if (options.failover) {
      peer_server->listen_at_first_endpoint();
    }
    follow(std::move(client));
  }

  void again_later() {
    pursue_timer.expires_after(kAgain);
    pursue_timer.async_wait(unless_gone([](Impl& self) {
      self.run_election();
      if (self.state == State::searching && self.joining == nullptr) {
        self.search();
      }
    }));
    joining.reset();
  }

  // --- Following ----------------------------------------------------------------------------

  void follow(JoinedAsClient joined) {
    log->info("follows the coordinator at {}, term {}", joined.peer, number(joined.accepted.term));
    state = State::following;
    followed = joined.accepted.term;
    voter.follow(followed, joined.accepted.coordinator);
    leading = joined.peer;
    at_endpoint = joined.at_endpoint && !called;
    settle();
    connect(std::move(joined.connection), joined.accepted, joined.asked_at);
  }

  /// There is a coordinator: nothing of the search for one goes on. What a standby knows stays true
  /// until a world of a later term is handed out.
  void settle() {
    election.reset();
    ballot.reset();
    pursue_timer.cancel();
    called.reset();
    lost_why.reset();
    // Not at once: this may be called by the join itself.
    asio::post(
        io, [weak = weak_from_this(), old = std::shared_ptr<JoinAttempt>(std::move(joining))] {});
  }

  void connect(Fd connection, std::optional<message::Accepted> greeted,
               Clock::time_point asked_at = Clock::time_point::max()) {
    CoordinatorOrders orders;
    orders.assign = [this](const message::Assigned& order) {
      if (options.failover) {
        on_assigned(order);
      }
      hooks.assign(order.world);
    };
    orders.stop = hooks.stop;
    orders.finish = [this](const JobSummary& summary) {
      give_up();
      hooks.finish(summary);
    };
    orders.waiting = hooks.waiting;
    orders.environment = [this] { return options.environment; };
    orders.rejected = [this](const Error& why) { fail(why); };
    orders.accepted = [this](const message::Accepted& told) {
      followed = told.term;
      voter.follow(told.term, told.coordinator);
    };
    orders.standby_state = [this](const message::StandbyState& told) {
      standby_state = told;
      story_at = now();
      const Configuration& configuration = told.replicated.configuration;
      memory.announced(told.replicated.term, told.replicated.attempt, configuration.number,
                       static_cast<int>(configuration.voters.size()), at_endpoint);
      log->info("this node is standby {} of the coordinator", told.place + 1);
    };
    orders.story = [this](const message::Story& told) {
      if (standby_state) {
        standby_state->replicated.attempt = told.attempt;
        memory.heard_of(told.attempt);
        standby_state->so_far = told.so_far;
        story_at = now();
      }
    };
    orders.prepare = [this](const message::PrepareConfiguration& order) {
      if (!voter.prepared(order.configuration, order.term)) {
        return false;
      }
      followed = order.term;
      if (order.voters > 0) {
        memory.announced(order.term, order.attempt, order.configuration, order.voters, at_endpoint);
      }
      return true;
    };
    orders.lost = [this](const CoordinatorLost& how) { lose(how); };
    client = CoordinatorClient::create(io, std::move(connection), greeted, node,
                                       options.heartbeat_timeout, std::move(orders), log, asked_at);
  }

  void on_assigned(const message::Assigned& order) {
    followed = order.term;
    voter.assigned(order.configuration, order.world.attempt, order.term);
    memory.assigned(order.term, order.world.attempt, order.configuration, order.world.group_rank,
                    at_endpoint);
    if (standby_state && standby_state->replicated.term < order.term) {
      standby_state.reset();  // others are the standbys now
    }
  }

  // --- Losing -------------------------------------------------------------------------------

  void lose(const CoordinatorLost& how) {
    if (state != State::following) {
      return;
    }
    state = State::fencing;
    contact = how.last_contact.time_since_epoch();
    saw_close = how.closed;
    lost_why = how.why;
    lost_clause = how.clause;
    hooks.lost(how.why);
  }

  /// By the coordinator in this agent: there is another one, or there may be.
  void step_down(const std::string& why, std::optional<message::Follow> by) {
    if (state != State::leading) {
      return;
    }
    log->warn("this node is no coordinator any more: {}", why);
    calls = {};
    client.reset();
    Fd listener = coordinator->resign(why);
    coordinator.reset();
    node.hosts_coordinator = false;
    peer_server->reopen(std::move(listener));
    state = State::fencing;
    contact = now();
    saw_close = false;
    called = std::move(by);
    lost_why = Error{"this node was the coordinator, but " + why, {}, {}};
    hooks.lost(*lost_why);
  }

  void quiet() {
    if (state != State::fencing) {
      return;
    }
    if (!options.failover) {
      fail(*lost_why);
      return;
    }
    client.reset();  // closes what was held until now
    state = State::searching;
    voter.lost(contact, saw_close);
    begin_election();
    if (lost_why) {
      log->warn("{}; searching for the new one{}", lost_why->sentence(),
                election ? ", as a candidate" : "");
    }
    search_since = Clock::now();
    search();
    run_election();
  }

  // --- Searching ------------------------------------------------------------------------------

  void search() {
    state = State::searching;
    if (called) {
      std::vector<Endpoint> places;
      for (const std::string& address : called->addresses) {
        places.push_back({address, called->port});
      }
      if (!places.empty()) {
        join(places, false, options.heartbeat_timeout, false);
        return;
      }
      called.reset();
    }
    join(options.endpoints, false, time_left());
  }

  milliseconds time_left() const {
    const auto sought = std::chrono::duration_cast<milliseconds>(Clock::now() - search_since);
    return std::max(options.join_timeout - sought, milliseconds(1));
  }

  /// A node that has no world does what it did before it was called: it may be the one that the
  /// others of the job look for.
  void begin_again() {
    if (!memory.past() && began_here) {
      settle();
      lead(peer_server->release_listener(), options.coordinator);
    } else if (number(followed) == 0) {
      state = State::joining;
      join(options.endpoints, options.is_host, time_left());
    } else {
      search();
    }
  }

  std::optional<message::Message> answer(const message::Message& question) {
    if (std::holds_alternative<message::Hello>(question)) {
      message::Moved moved{followed, {}, 0};
      if (state == State::following) {
        if (const auto at = parse_endpoint(leading, 0)) {
          moved.addresses = {at->host};
          moved.port = at->port;
        }
      } else if (state == State::leading) {
        moved.addresses = node.addresses;
        moved.port = node.port;
      }
      return moved;
    }
    if (const auto* ask = std::get_if<message::AskVote>(&question)) {
      if (ask->job_id != node.job_id || ask->voter != node.voter) {
        return std::nullopt;
      }
      const Vote vote = voter.answer(now(), ask->request);
      if (election && vote.verdict == VoteVerdict::granted) {
        election->outvoted(now(), ask->request.term);
      }
      return message::VoteAnswer{vote};
    }
    if (const auto* call = std::get_if<message::Follow>(&question)) {
      if (call->job_id == node.job_id) {
        asio::post(io, [weak = weak_from_this(), call = *call] {
          if (const auto self = weak.lock()) {
            self->on_call(call);
          }
        });
      }
      return message::Moved{};
    }
    return std::nullopt;
  }

  void on_call(const message::Follow& call) {
    // A call to the endpoint is for an agent without a world: the voters of a world are called
    // themselves. But a voter that was away while the world changed twice is not called any more.
    const bool yields = !memory.past() || (state == State::searching && call.term > followed);
    if (!is_called(options.coordinator, yields, call)) {
      return;
    }
    if (state == State::following && call.term > followed) {
      client->leave();
      called = call;
      state = State::fencing;
      contact = now();
      saw_close = false;
      lost_why = Error{"a coordinator of a later term took over", {}, {}};
      hooks.lost(*lost_why);
    } else if ((state == State::searching || state == State::joining) && !called) {
      log->info("the coordinator of term {} calls this node", number(call.term));
      called = call;
      search();
    } else if (state == State::fencing) {
      called = call;
    }
  }

  // --- Election -----------------------------------------------------------------------------

  void begin_election() {
    if (!standby_state) {
      return;
    }
    election.emplace(
        node.voter, standby_state->replicated, static_cast<std::size_t>(standby_state->place),
        ElectionTimeouts::of(standby_state->heartbeat_timeout), voter.promise().term, now());
    const auto with_election = [weak = weak_from_this()](const auto& action) {
      if (const auto self = weak.lock();
          self && self->election && self->state == State::searching) {
        action(*self->election);
        self->run_election();
      }
    };
    ballot = VoteCollector::open(
        io, node.job_id, options.heartbeat_timeout / 4,
        {[with_election](VoterId from, const Vote& vote) {
           with_election([&](Election& mine) { mine.on_vote(now(), from, vote); });
         },
         [with_election](VoterId from) {
           with_election([&](Election& mine) { mine.on_gone(now(), from); });
         }});
  }

  void run_election() {
    if (state != State::searching || !election) {
      return;
    }
    if (election->time_passed(now())) {
      ask_all();
    }
    if (election->state() == Election::State::leading) {
      take_over();
      return;
    }
    if (const auto deadline = election->next_deadline()) {
      pursue_timer.expires_at(Clock::time_point(*deadline));
      pursue_timer.async_wait(unless_gone([](Impl& self) { self.run_election(); }));
    }
  }

  void ask_all() {
    const VoteRequest request = election->request();
    const VoterAddresses book(standby_state->voters);
    for (const VoterId one : election->voters()) {
      if (one == node.voter && !election->granted_by(one)) {
        election->on_vote(now(), one, voter.answer(now(), request));
      }
      const message::VoterAddress* place = book.find(one);
      if (place != nullptr && one != node.voter && !election->granted_by(one)) {
        ballot->ask(*place, request);
      }
    }
  }

  // --- Leading ------------------------------------------------------------------------------

  void take_over() {
    const message::StandbyState known = *standby_state;
    CoordinatorOptions led =
        successor_options(options.coordinator, known, election->request().term);
    led.inheritance = TakeoverState{election->inheritance(),
                                    election->first_attempt(),
                                    known.so_far,
                                    static_cast<int>(election->votes()),
                                    led.heartbeat_timeout,
                                    now() - contact,
                                    lost_clause,
                                    now() - story_at};
    log->warn("this node is the coordinator from here on: term {}, {}", number(led.term),
              election->progress_text());
    settle();
    const message::JobOptions told = job_options(led);
    Fd listener = peer_server->release_listener();
    lead(std::move(listener), std::move(led));
    if (coordinator) {
      calls = LeaderCalls::begin(
          io, *coordinator, node, told, peer_server->other_endpoints(),
          [this](const message::Follow& by) {
            step_down("a coordinator of a later term leads", by);
          },
          options.heartbeat_timeout / 4);
    }
  }

  void lead(Fd listener, CoordinatorOptions led) {
    led.self = node.voter;
    led.at_endpoint = !peer_server || peer_server->at_endpoint();
    node.promise = voter.promise();
    CoordinatorHooks joints = hooks.coordinator;
    if (options.failover) {
      joints.deposed = [weak = weak_from_this()](const std::string& why, auto by) {
        if (const auto self = weak.lock()) {
          self->step_down(why, std::move(by));
        }
      };
    }
    auto created =
        Coordinator::create(io, std::move(listener), std::move(led), std::move(joints), log);
    if (!created) {
      fail(created.error());
      return;
    }
    coordinator = std::move(*created);
    auto local = coordinator->connect_local();
    if (!local) {
      fail(local.error());
      return;
    }
    state = State::leading;
    node.hosts_coordinator = true;
    followed = coordinator->membership().leadership().term();
    connect(std::move(*local), std::nullopt);
  }

  // --- The end ------------------------------------------------------------------------------

  void give_up() {
    if (state != State::leading && state != State::following) {
      state = State::over;
    }
    joining.reset();
    election.reset();
    ballot.reset();
    calls = {};
    pursue_timer.cancel();
  }

  void fail(const Error& why) {
    state = State::over;
    asio::post(io, [self = shared_from_this(), why] {
      self->give_up();
      self->hooks.failed(why);
    });
  }

  asio::io_context& io;
  FollowerOptions options;
  FollowerHooks hooks;
  std::shared_ptr<spdlog::logger> log;
  NodeDescription node;
  State state = State::joining;
  JoinHandle joining;
  std::shared_ptr<PeerServer> peer_server;  ///< null in a job without failover
  std::unique_ptr<CoordinatorClient> client;
  std::unique_ptr<Coordinator> coordinator;
  Voter voter;
  LastKnownState memory;
  Term followed{};      ///< the newest term that this agent really followed
  std::string leading;  ///< the coordinator, numeric
  bool at_endpoint = false;
  bool began_here = false;  ///< it has bound the job's first endpoint
  std::optional<message::StandbyState> standby_state;
  Instant story_at{};  ///< when its story came
  Instant contact{};   ///< of the newest loss, as the next four
  bool saw_close = false;
  std::optional<Error> lost_why;
  std::string lost_clause;
  std::optional<message::Follow> called;
  Clock::time_point search_since = Clock::now();
  std::optional<Election> election;
  std::shared_ptr<VoteCollector> ballot;  ///< of the election
  LeaderCalls calls;
  asio::steady_timer pursue_timer;
};

Follower::Follower(asio::io_context& io, FollowerOptions options, FollowerHooks hooks,
                   std::shared_ptr<spdlog::logger> log)
    : impl_(std::make_shared<Impl>(io, std::move(options), std::move(hooks), std::move(log))) {}

Follower::~Follower() {
  impl_->give_up();
  impl_->state = Impl::State::over;
}

void Follower::start() {
  impl_->start();
}

void Follower::quiet() {
  impl_->quiet();
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

}  // namespace ddprun
