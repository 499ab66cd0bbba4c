#include "rendezvous/control/follower.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "rendezvous/control/address_book.h"
#include "rendezvous/control/ballot.h"
#include "rendezvous/control/coordinator_terms.h"
#include "rendezvous/control/join.h"
#include "rendezvous/control/leader_calls.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/new_elector.h"
#include "rendezvous/control/reception.h"
#include "rendezvous/membership/candidacy.h"
#include "rendezvous/membership/job_memory.h"
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
  enum class State : std::uint8_t { joining, following, leading, losing, seeking, over };

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
    if (!options.succession) {
      join(options.endpoints, options.is_host, options.join_timeout);
      return;
    }
    const std::weak_ptr<Impl> weak = weak_from_this();
    reception = Reception::create(
        io, options.endpoints,
        [weak](const message::Message& question) {
          const auto self = weak.lock();
          return self ? self->answer(question) : std::nullopt;
        },
        log);
    reception->open([weak](const Result<void>& opened) {
      if (const auto self = weak.lock(); self && self->state != State::over) {
        opened ? self->begin() : self->fail(opened.error());
      }
    });
  }

  void begin() {
    node.elector = new_elector();
    node.addresses = own_addresses(means_loopback(options.endpoints.front().host));
    node.port = reception->port();
    join(options.endpoints, options.is_host, options.join_timeout);
  }

  /// `by_endpoint`: these are the user's words, not an agent's.
  void join(const std::vector<Endpoint>& endpoints, std::optional<bool> is_host,
            milliseconds timeout, bool by_endpoint = true) {
    node.pledge = elector.pledge();
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
      if (reception) {
        reception->give_way_to(host->bound.port);
      }
      options.coordinator.endpoint_note = host->note;
      settle();
      lead(std::move(host->listener), options.coordinator);
      return;
    }
    auto& client = std::get<JoinedAsClient>(*joined);
    // An answer as old as half a lease: the coordinator may not believe in it any more.
    if (Clock::now() - client.asked_at > options.heartbeat_timeout / 2) {
      state = State::seeking;
      again_later();
      return;
    }
    if (elector.pledge() != node.pledge) {
      seek();  // it gave its vote since it said what it is bound by: it comes anew
      return;
    }
    if (options.succession) {
      reception->keep_first_endpoint();
    }
    follow(std::move(client));
  }

  void again_later() {
    pursue_timer.expires_after(kAgain);
    pursue_timer.async_wait(unless_gone([](Impl& self) {
      self.pursue();
      if (self.state == State::seeking && self.joining == nullptr) {
        self.seek();
      }
    }));
    joining.reset();
  }

  // --- Following ----------------------------------------------------------------------------

  void follow(JoinedAsClient joined) {
    log->info("follows the coordinator at {}, term {}", joined.peer, number(joined.accepted.term));
    state = State::following;
    followed = joined.accepted.term;
    elector.follow(followed, joined.accepted.coordinator);
    reigning = joined.peer;
    at_endpoint = joined.at_endpoint && !called;
    settle();
    connect(std::move(joined.connection), joined.accepted, joined.asked_at);
  }

  /// There is a coordinator: nothing of the search for one goes on. What a standby knows stays true
  /// until a world of a later term is handed out.
  void settle() {
    candidacy.reset();
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
      if (options.succession) {
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
      elector.follow(told.term, told.coordinator);
    };
    orders.heir = [this](const message::Heir& told) {
      heir = told;
      story_at = now();
      const Roster& roster = told.succession.roster;
      memory.announced(told.succession.term, told.succession.attempt, roster.number,
                       static_cast<int>(roster.electors.size()), at_endpoint);
      log->info("this node is standby {} of the coordinator", told.place + 1);
    };
    orders.story = [this](const message::Story& told) {
      if (heir) {
        heir->succession.attempt = told.attempt;
        memory.heard_of(told.attempt);
        heir->so_far = told.so_far;
        story_at = now();
      }
    };
    orders.prepare = [this](const message::PrepareRoster& order) {
      if (!elector.prepared(order.roster, order.term)) {
        return false;
      }
      followed = order.term;
      if (order.electors > 0) {
        memory.announced(order.term, order.attempt, order.roster, order.electors, at_endpoint);
      }
      return true;
    };
    orders.lost = [this](const CoordinatorLost& how) { lose(how); };
    client = CoordinatorClient::create(io, std::move(connection), greeted, node,
                                       options.heartbeat_timeout, std::move(orders), log, asked_at);
  }

  void on_assigned(const message::Assigned& order) {
    followed = order.term;
    elector.assigned(order.roster, order.world.attempt, order.term);
    memory.assigned(order.term, order.world.attempt, order.roster, order.world.group_rank,
                    at_endpoint);
    if (heir && heir->succession.term < order.term) {
      heir.reset();  // others are the standbys now
    }
  }

  // --- Losing -------------------------------------------------------------------------------

  void lose(const CoordinatorLost& how) {
    if (state != State::following) {
      return;
    }
    state = State::losing;
    contact = how.last_contact.time_since_epoch();
    saw_close = how.closed;
    lost_why = how.why;
    lost_clause = how.clause;
    hooks.lost(how.why);
  }

  /// By the coordinator in this agent: there is another one, or there may be.
  void depose(const std::string& why, std::optional<message::Follow> by) {
    if (state != State::leading) {
      return;
    }
    log->warn("this node is no coordinator any more: {}", why);
    calls = {};
    client.reset();
    Fd listener = coordinator->resign(why);
    coordinator.reset();
    node.hosts_coordinator = false;
    reception->reopen(std::move(listener));
    state = State::losing;
    contact = now();
    saw_close = false;
    called = std::move(by);
    lost_why = Error{"this node was the coordinator, but " + why, {}, {}};
    hooks.lost(*lost_why);
  }

  void quiet() {
    if (state != State::losing) {
      return;
    }
    if (!options.succession) {
      fail(*lost_why);
      return;
    }
    client.reset();  // closes what was held until now
    state = State::seeking;
    elector.lost(contact, saw_close);
    begin_candidacy();
    if (lost_why) {
      log->warn("{}; this node looks for another one{}", lost_why->sentence(),
                candidacy ? ", and stands for it" : "");
    }
    seek_since = Clock::now();
    seek();
    pursue();
  }

  // --- Seeking ------------------------------------------------------------------------------

  void seek() {
    state = State::seeking;
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
    const auto sought = std::chrono::duration_cast<milliseconds>(Clock::now() - seek_since);
    return std::max(options.join_timeout - sought, milliseconds(1));
  }

  /// A node that has no world does what it did before it was called: it may be the one that the
  /// others of the job look for.
  void begin_again() {
    if (!memory.past() && began_here) {
      settle();
      lead(reception->give_way(), options.coordinator);
    } else if (number(followed) == 0) {
      state = State::joining;
      join(options.endpoints, options.is_host, time_left());
    } else {
      seek();
    }
  }

  std::optional<message::Message> answer(const message::Message& question) {
    if (std::holds_alternative<message::Hello>(question)) {
      message::Moved moved{followed, {}, 0};
      if (state == State::following) {
        if (const auto at = parse_endpoint(reigning, 0)) {
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
      if (ask->job_id != node.job_id || ask->elector != node.elector) {
        return std::nullopt;
      }
      const Vote vote = elector.answer(now(), ask->request);
      if (candidacy && vote.verdict == VoteVerdict::granted) {
        candidacy->outvoted(now(), ask->request.term);
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
    // One to the endpoint is for who has no world yet; the voters of a world are called themselves.
    if (!is_called(options.coordinator, !memory.past(), call)) {
      return;
    }
    if (state == State::following && call.term > followed) {
      client->leave();
      called = call;
      state = State::losing;
      contact = now();
      saw_close = false;
      lost_why = Error{"a coordinator of a later term took over", {}, {}};
      hooks.lost(*lost_why);
    } else if ((state == State::seeking || state == State::joining) && !called) {
      log->info("the coordinator of term {} calls this node", number(call.term));
      called = call;
      seek();
    } else if (state == State::losing) {
      called = call;
    }
  }

  // --- Standing for it ----------------------------------------------------------------------

  void begin_candidacy() {
    if (!heir) {
      return;
    }
    candidacy.emplace(node.elector, heir->succession, static_cast<std::size_t>(heir->place),
                      CandidacyTimes::of(options.heartbeat_timeout), elector.pledge().term, now());
    const auto with_candidacy = [weak = weak_from_this()](const auto& action) {
      if (const auto self = weak.lock(); self && self->candidacy && self->state == State::seeking) {
        action(*self->candidacy);
        self->pursue();
      }
    };
    ballot =
        Ballot::open(io, node.job_id, options.heartbeat_timeout / 4,
                     {[with_candidacy](ElectorId from, const Vote& vote) {
                        with_candidacy([&](Candidacy& mine) { mine.on_vote(now(), from, vote); });
                      },
                      [with_candidacy](ElectorId from) {
                        with_candidacy([&](Candidacy& mine) { mine.on_gone(now(), from); });
                      }});
  }

  void pursue() {
    if (state != State::seeking || !candidacy) {
      return;
    }
    if (candidacy->time_passed(now())) {
      ask_all();
    }
    if (candidacy->state() == Candidacy::State::leading) {
      take_over();
      return;
    }
    if (const auto deadline = candidacy->next_deadline()) {
      pursue_timer.expires_at(Clock::time_point(*deadline));
      pursue_timer.async_wait(unless_gone([](Impl& self) { self.pursue(); }));
    }
  }

  void ask_all() {
    const VoteRequest request = candidacy->request();
    const AddressBook book(heir->electors);
    for (const ElectorId one : candidacy->electorate()) {
      if (one == node.elector && !candidacy->granted_by(one)) {
        candidacy->on_vote(now(), one, elector.answer(now(), request));
      }
      const message::ElectorAddress* place = book.find(one);
      if (place != nullptr && one != node.elector && !candidacy->granted_by(one)) {
        ballot->ask(*place, request);
      }
    }
  }

  // --- Leading ------------------------------------------------------------------------------

  void take_over() {
    const message::Heir known = *heir;
    CoordinatorOptions led =
        successor_options(options.coordinator, known, candidacy->request().term);
    led.inheritance = Inheritance{candidacy->inheritance(),
                                  candidacy->first_attempt(),
                                  known.so_far,
                                  static_cast<int>(candidacy->votes()),
                                  options.heartbeat_timeout,
                                  now() - contact,
                                  lost_clause,
                                  now() - story_at};
    log->warn("this node is the coordinator from here on: term {}, {}", number(led.term),
              candidacy->progress_text());
    settle();
    const message::JobOptions told = job_options(led);
    Fd listener = reception->give_way();
    lead(std::move(listener), std::move(led));
    if (coordinator) {
      calls = LeaderCalls::begin(
          io, *coordinator, node, told, reception->other_endpoints(),
          [this](const message::Follow& by) { depose("a coordinator of a later term reigns", by); },
          options.heartbeat_timeout / 4);
    }
  }

  void lead(Fd listener, CoordinatorOptions led) {
    led.self = node.elector;
    led.at_endpoint = !reception || reception->at_endpoint();
    node.pledge = elector.pledge();
    CoordinatorHooks joints = hooks.coordinator;
    if (options.succession) {
      joints.deposed = [weak = weak_from_this()](const std::string& why, auto by) {
        if (const auto self = weak.lock()) {
          self->depose(why, std::move(by));
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
    followed = coordinator->membership().reign().term();
    connect(std::move(*local), std::nullopt);
  }

  // --- The end ------------------------------------------------------------------------------

  void give_up() {
    if (state != State::leading && state != State::following) {
      state = State::over;
    }
    joining.reset();
    candidacy.reset();
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
  std::shared_ptr<Reception> reception;  ///< null in a job without succession
  std::unique_ptr<CoordinatorClient> client;
  std::unique_ptr<Coordinator> coordinator;
  Elector elector;
  JobMemory memory;
  Term followed{};       ///< the newest term that this agent really followed
  std::string reigning;  ///< the coordinator, numeric
  bool at_endpoint = false;
  bool began_here = false;  ///< it has bound the job's first endpoint
  std::optional<message::Heir> heir;
  Instant story_at{};  ///< when its story came
  Instant contact{};   ///< of the newest loss, as the next four
  bool saw_close = false;
  std::optional<Error> lost_why;
  std::string lost_clause;
  std::optional<message::Follow> called;
  Clock::time_point seek_since = Clock::now();
  std::optional<Candidacy> candidacy;
  std::shared_ptr<Ballot> ballot;  ///< of the candidacy
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
