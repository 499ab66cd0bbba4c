#include "rendezvous/control/join.h"

#include <spdlog/spdlog.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/beat_socket.h"
#include "rendezvous/control/link_discovery.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/listener_fingerprint.h"
#include "rendezvous/control/name_lookup.h"
#include "rendezvous/control/search_input.h"
#include "rendezvous/control/token_exchange.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

/// A Rejected frame with both of its sentences. What is longer is no answer, but the length field
/// of a program that speaks another protocol.
constexpr std::size_t kAnswerBytesMax = 8 * 1024;
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
                            private TokenExchangeOwner,
                            private NameLookupOwner,
                            private LinkAskerOwner {
  using Clock = std::chrono::steady_clock;

  State(asio::io_context& the_io, SearchRequest the_request,
        std::shared_ptr<const JobToken> the_token, OnJoined the_done,
        std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        token(std::move(the_token)),
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
                              std::strerror(listening.errno_value)});
    }
  }

  // --- The connection -----------------------------------------------------------------------

  void carry_out(const search::Disconnect&) {
    ++round;
    proof.reset();
    is_proved = false;
    error_code ignored;
    socket.close(ignored);
    write_failed = false;
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

  /// The kernel reports a reset once. If the write meets it, the read sees an orderly end, and
  /// people would read that the listener closes connections. So the write is remembered.
  void write(std::string bytes) {
    said = std::move(bytes);
    asio::async_write(socket, asio::buffer(said),
                      in_round([](State& self, error_code failed, std::size_t) {
                        self.write_failed = failed.failed();
                      }));
  }

  /// Reads exactly `size` bytes into `answer`, then goes on.
  void read(std::size_t size, void (*next)(State&)) {
    answer.resize(size);
    asio::async_read(socket, asio::buffer(answer),
                     in_round([next](State& self, error_code failed, std::size_t n) {
                       self.answer.resize(failed ? n : self.answer.size());
                       failed ? self.broke(failed, self.answer) : next(self);
                     }));
  }

  /// A stranger may send fewer bytes than a preamble has, and close: they still tell what it is.
  void broke(error_code failed, const std::string& said_last) {
    if (check_preamble(said_last).verdict == PreambleVerdict::stranger) {
      step(stranger(said_last));
    } else {
      const bool reset = failed == asio::error::connection_reset || write_failed;
      step(search::Disconnected{reset ? was_reset() : was_closed()});
    }
  }

  /// The options of the socket come first: it is the agent's connection for the whole job, if the
  /// answer is good.
  void carry_out(const search::SayHello& order) {
    prepare_beat_socket(socket.native_handle());
    if (token) {
      prove(order.hello);
    } else {
      say_hello(order.hello);
    }
  }

  /// The socket is the exchange's meanwhile, and comes back with the answer.
  void prove(const message::Hello& hello) {
    error_code failed;
    Fd connection(socket.release(failed));
    if (failed) {
      step(search::Disconnected{was_closed()});
      return;
    }
    proved_hello = hello;
    proof = prove_token(io, std::move(connection), token, *this, round);
  }

  /// What is said in place of a proof is the answer: a refusal, or the words of a stranger.
  void on_token(std::uint64_t /*round*/, TokenOutcome outcome) override {
    const auto alive = shared_from_this();
    proof.reset();
    is_proved = outcome.who == TokenOutcome::Who::member;
    if (outcome.who == TokenOutcome::Who::impostor) {
      step(impostor());
      return;
    }
    write_failed = outcome.by_reset;
    if (outcome.who == TokenOutcome::Who::gone) {
      broke({}, outcome.said);
      return;
    }
    const int family = net::far_end(outcome.socket.get()).storage.ss_family;
    error_code failed;
    socket.assign(family == AF_INET6 ? tcp::v6() : tcp::v4(), outcome.socket.get(), failed);
    if (failed) {
      step(search::Disconnected{was_closed()});
      return;
    }
    (void)outcome.socket.release();
    if (outcome.who == TokenOutcome::Who::member) {
      say_hello(proved_hello);
    } else {
      answer = std::move(outcome.said);
      on_preamble();
    }
  }

  void say_hello(const message::Hello& hello) {
    write(preamble() + encode(hello));
    // Exactly the answer and no byte more: what follows belongs to the client that takes over.
    read(kPreambleBytes, [](State& self) { self.on_preamble(); });
  }

  void on_preamble() {
    const PreambleCheck check = check_preamble(answer);
    if (check.verdict == PreambleVerdict::other_version) {
      step(search::OtherVersion{static_cast<std::uint16_t>(check.version & ~kTokenVersionBit)});
    } else if (check.verdict != PreambleVerdict::good) {
      step(stranger(answer));
    } else {
      read(kFrameHeaderBytes, [](State& self) { self.on_header(); });
    }
  }

  /// The header of a frame: length in little-endian, which counts the type, and the type.
  void on_header() {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length |= static_cast<std::size_t>(static_cast<unsigned char>(answer[i])) << (8 * i);
    }
    answer_type = static_cast<std::uint8_t>(answer[4]);
    if (length == 0 || length > kAnswerBytesMax) {
      step(stranger(answer));
    } else {
      read(length - 1, [](State& self) { self.take_answer(); });
    }
  }

  /// Without the proof only a refusal counts. Whoever listens there could else lead this agent, or
  /// send it to one that does.
  void take_answer() {
    search::Input heard = answer_of(answer_type, answer);
    if (token && !is_proved && !std::holds_alternative<search::Rejected>(heard)) {
      heard = impostor();
    }
    step(std::move(heard));
  }

  static search::Input impostor() {
    return search::Rejected{{"who listens there does not have the job's token",
                             "give every agent the same --job-token-file, or name another "
                             "endpoint"}};
  }

  void carry_out(const search::SayProbe& order) {
    if (order.words == search::SayProbe::Words::line) {
      write(std::string(kLineProbe));
      return;
    }
    // Any answer will do, even none: what came by then is looked at, and an end is an empty one.
    write(std::string(kStoreProbe));
    answer.resize(kProbeAnswerBytes);
    socket.async_read_some(asio::buffer(answer),
                           in_round([](State& self, error_code, std::size_t n) {
                             self.answer.resize(n);
                             self.step(stranger(self.answer));
                           }));
  }

  void carry_out(const search::AskLinks& order) {
    links = LinkAsker::ask(io, {token, order.job_id, order.endpoint}, *this);
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
    error_code failed;
    Fd connection(socket.release(failed));
    if (failed) {
      carry_out(SearchFailed{Error{"the connection broke: " + failed.message(), order.leader, {}}});
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
  std::shared_ptr<const JobToken> token;
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
  std::string said;
  std::string answer;
  std::uint8_t answer_type = 0;
  TokenExchange proof;          ///< while it is under way
  message::Hello proved_hello;  ///< said after it
  bool is_proved = false;       ///< of the connection at hand
  bool write_failed = false;
  bool was_rejected = false;
};

void JoinAttemptDeleter::operator()(JoinAttempt* attempt) const {
  attempt->state->cancel();
  delete attempt;  // allowed: the deleter of JoinHandle, its one owner
}

bool was_rejected(const JoinHandle& attempt) {
  return attempt && attempt->state->was_rejected;
}

JoinHandle join_endpoint(asio::io_context& io, SearchRequest request,
                         std::shared_ptr<const JobToken> token, OnJoined done,
                         std::shared_ptr<spdlog::logger> log) {
  auto state = std::make_shared<JoinAttempt::State>(io, std::move(request), std::move(token),
                                                    std::move(done), std::move(log));
  // The first step comes from the loop: `done` must not be called before the handle is returned.
  state->arm_timer();
  return JoinHandle(new JoinAttempt{std::move(state)});
}

}  // namespace ddprun
