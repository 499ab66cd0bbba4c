#include "rendezvous/control/join.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "rendezvous/base/open_files.h"
#include "rendezvous/base/socket.h"
#include "rendezvous/control/beat_socket.h"
#include "rendezvous/control/greeting.h"
#include "rendezvous/control/link_discovery.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/listener_fingerprint.h"
#include "rendezvous/control/name_lookup.h"
#include "rendezvous/control/search_input.h"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// The first bytes of a greeting are enough to recognise a protocol (listener_fingerprint).
constexpr std::size_t kProbeAnswerBytes = 64;

}  // namespace

class JoinAttempt {
 public:
  struct State;
  std::shared_ptr<State> state;
};

/// Handlers hold a shared pointer. Once `done` is null the attempt is over: they come and do
/// nothing.
struct JoinAttempt::State : std::enable_shared_from_this<JoinAttempt::State>,
                            private GreetingOwner,
                            private NameLookupOwner,
                            private LinkAskerOwner {
  using Clock = std::chrono::steady_clock;

  State(asio::io_context& the_io, SearchRequest the_request, Credentials the_credentials,
        OnJoined the_done, std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        credentials(std::move(the_credentials)),
        done(std::move(the_done)),
        log(std::move(the_log)),
        decides(std::move(the_request), Clock::now().time_since_epoch()),
        names(NameLookup::create(the_io, *this)),
        socket(the_io),
        timer(the_io) {}

  // --- LeaderSearch and its timer -----------------------------------------------------------

  /// An input that arises while an action is carried out waits. The end of the attempt is such an
  /// action: what was still to be looked at then is dropped.
  void step(search::Input input) {
    inputs.push_back(std::move(input));
    if (inputs.size() > 1) {
      return;
    }
    while (done && !inputs.empty()) {
      for (search::Action& action :
           decides.step(Clock::now().time_since_epoch(), std::move(inputs.front()))) {
        std::visit([this](auto& order) { carry_out(std::move(order)); }, action);
      }
      inputs.pop_front();
    }
    arm_timer();
  }

  void arm_timer() {
    const auto due = done ? decides.next_deadline() : std::nullopt;
    timer.cancel();
    if (due) {
      timer.expires_at(Clock::time_point(*due));
      timer.async_wait([self = shared_from_this()](error_code cancelled) {
        if (!cancelled && self->done) {
          self->step(search::TimePassed{});
        }
      });
    }
  }

  /// For the handler of an operation. Asio may have queued it before the operation was cancelled,
  /// so the number of the round tells a late handler from one that is waited for.
  template <class Handler>
  auto in_round(Handler handler) {
    return [self = shared_from_this(), of = round, handler](error_code failed, auto&&... result) {
      if (self->done && self->round == of) {
        handler(*self, failed, std::forward<decltype(result)>(result)...);
      }
    };
  }

  void carry_out(const LogLine& line) {
    log->log(line.warning ? spdlog::level::warn : spdlog::level::info, "{}", line.text);
  }

  // --- Names and ports ----------------------------------------------------------------------

  void carry_out(const search::Resolve& order) {
    ++round;
    // A number needs no name service, which may be down, and none is asked for "localhost": RFC
    // 6761, 6.3, gives the name to loopback.
    error_code not_numeric;
    const auto numeric = asio::ip::make_address(order.host, not_numeric);
    if (!not_numeric) {
      step(resolved_to({numeric.to_string()}, true));
    } else if (order.host == "localhost") {
      step(resolved_to({"127.0.0.1", "::1"}, true));
    } else if (!order.ask_names) {
      step(search::Unresolved{"it is a name"});
    } else {
      names->ask(order.host, round);
    }
  }

  bool on_name(std::uint64_t of, const NameAnswer& answer) override {
    if (!done || of != round) {
      return false;
    }
    const auto alive = shared_from_this();
    if (answer.failure.empty()) {
      step(resolved_to(answer.addresses, false));
    } else {
      step(search::Unresolved{answer.failure});
    }
    return true;
  }

  /// Bound and listening is the claim to host. Nothing is accepted before the coordinator runs:
  /// agents that connect meanwhile wait in the backlog.
  void carry_out(const search::Bind& order) {
    Listening listening = order.address.empty() ? listen_everywhere(order.port)
                                                : listen_at(order.address, order.port);
    if (listening.socket) {
      bound = std::move(listening.socket);
      step(search::Bound{port_of(bound)});
    } else {
      step(search::BindFailed{listening.errno_value == EADDRINUSE,
                              std::strerror(listening.errno_value),
                              open_files_todo(listening.errno_value)});
    }
  }

  // --- The connection -----------------------------------------------------------------------

  void carry_out(const search::Disconnect&) {
    ++round;
    if (greeting) {
      std::exchange(greeting, nullptr)->close();
    }
    error_code ignored;
    socket.close(ignored);
  }

  void carry_out(const search::Connect& order) {
    carry_out(search::Disconnect{});
    error_code no_address;
    const auto address = asio::ip::make_address(order.address, no_address);
    socket.async_connect(
        tcp::endpoint(address, order.port), in_round([](State& self, error_code failed) {
          if (!failed) {
            self.step(search::Connected{});
          } else if (failed == asio::error::connection_reset) {
            // The listener accepted and reset it before the loop saw it connected.
            self.step(search::Disconnected{was_reset()});
          } else {
            self.step(search::Disconnected{
                connect_trouble(failed == asio::error::connection_refused, failed.message())});
          }
        }));
  }

  void write(std::string_view bytes) {
    asio::async_write(socket, asio::buffer(bytes),
                      in_round([](State&, error_code, std::size_t) {}));
  }

  /// The options of the socket come first: it is the agent's connection for the whole job, if the
  /// answer is good.
  void carry_out(const search::SayHello& order) {
    prepare_beat_socket(socket.native_handle());
    error_code failed;
    Fd connection(socket.release(failed));
    if (failed) {
      step(search::Disconnected{was_closed()});
      return;
    }
    greeting = Greeting::begin(io, std::move(connection), credentials, order.hello, *this);
  }

  /// LeaderSearch knows for each state what this means: it may come as it gives the address up.
  void on_greeted(search::Input heard) override {
    const auto alive = shared_from_this();
    step(std::move(heard));
  }

  void carry_out(const search::SayProbe& order) {
    if (order.words == search::SayProbe::Words::line) {
      write(kLineProbe);
      return;
    }
    // Any answer will do, even none: what came by then is looked at, and an end is an empty one.
    write(kStoreProbe);
    answer.resize(kProbeAnswerBytes);
    socket.async_read_some(asio::buffer(answer),
                           in_round([](State& self, error_code, std::size_t n) {
                             self.answer.resize(n);
                             self.step(stranger(self.answer));
                           }));
  }

  void carry_out(const search::AskLinks& order) {
    links = LinkAsker::ask(io, {credentials.token, order.job_id, order.endpoint}, *this);
  }

  void on_link(const std::string& address) override {
    const auto alive = shared_from_this();
    step(search::FoundOnLink{address});
  }

  // --- The end ------------------------------------------------------------------------------

  void carry_out(search::HostEndpoint order) {
    finish(JoinedAsHost{std::move(bound), std::move(order.bound), std::move(order.note)});
  }

  void carry_out(HelloAccepted order) {
    Channel connection = greeting->release();
    if (!connection) {
      carry_out(SearchFailed{Error{"the connection broke", order.leader, {}}});
      return;
    }
    finish(JoinedAsClient{std::move(connection), std::move(order.leader), order.accepted,
                          order.at_endpoint, Clock::time_point(order.asked_at)});
  }

  void carry_out(SearchFailed order) {
    was_rejected = order.rejected;
    finish(std::move(order.why));
  }

  void finish(Result<Joined> result) {
    // `done` may destroy the handle of this attempt, so it is called last.
    const auto tell = std::move(done);
    cancel();
    tell(std::move(result));
  }

  void cancel() {
    done = nullptr;
    carry_out(search::Disconnect{});
    names->cancel();
    timer.cancel();
    links.reset();
  }

  asio::io_context& io;
  Credentials credentials;
  OnJoined done;  ///< null: it is over
  std::shared_ptr<spdlog::logger> log;
  LeaderSearch decides;
  std::shared_ptr<LinkAsker> links;
  std::deque<search::Input> inputs;
  std::shared_ptr<NameLookup> names;
  tcp::socket socket;
  asio::steady_timer timer;
  std::uint64_t round = 0;  ///< counts what was begun on names and socket
  Fd bound;
  std::string answer;                  ///< to a probe
  std::shared_ptr<Greeting> greeting;  ///< has the connection from the hello on
  bool was_rejected = false;
};

void JoinAttemptDeleter::operator()(JoinAttempt* attempt) const {
  attempt->state->cancel();
  delete attempt;  // allowed: the deleter of JoinHandle, its one owner
}

bool was_rejected(const JoinHandle& attempt) {
  return attempt && attempt->state->was_rejected;
}

JoinHandle join_endpoint(asio::io_context& io, SearchRequest request, Credentials credentials,
                         OnJoined done, std::shared_ptr<spdlog::logger> log) {
  auto state = std::make_shared<JoinAttempt::State>(io, std::move(request), std::move(credentials),
                                                    std::move(done), std::move(log));
  // The first step comes from the loop: `done` must not be called before the handle is returned.
  state->arm_timer();
  return JoinHandle(new JoinAttempt{std::move(state)});
}

}  // namespace ddprun
