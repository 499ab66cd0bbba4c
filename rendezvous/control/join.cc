#include "rendezvous/control/join.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/control/beat_socket.h"
#include "rendezvous/control/connection.h"
#include "rendezvous/control/join_report.h"
#include "rendezvous/control/join_timeouts.h"
#include "rendezvous/control/listener.h"
#include "rendezvous/control/listener_fingerprint.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message_codec.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using std::chrono::milliseconds;
using std::chrono::seconds;

Trouble was_reset() {
  return {Obstacle::reset, "something accepts the connection and resets it without an answer"};
}

}  // namespace

class JoinAttempt {
 public:
  struct State;
  std::shared_ptr<State> state;
};

struct JoinAttempt::State : std::enable_shared_from_this<JoinAttempt::State> {
  using Clock = std::chrono::steady_clock;

  State(asio::io_context& the_io, JoinRequest the_request,
        std::function<void(Result<Joined>)> the_done, std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        request(std::move(the_request)),
        done(std::move(the_done)),
        log(std::move(the_log)),
        resolver(the_io),
        socket(the_io),
        timer(the_io),
        started(Clock::now()),
        report(request.endpoints, request.join_timeout, started.time_since_epoch()) {}

  /// Handlers of earlier rounds find that they are late, and do nothing.
  template <class Handler>
  auto in_round(std::uint64_t round, Handler handler) {
    return [self = shared_from_this(), round, handler](error_code failed, std::size_t n = 0) {
      if (self->done && self->round_number == round) {
        handler(*self, failed, n);
      }
    };
  }

  [[nodiscard]] const Endpoint& endpoint() const { return request.endpoints[turn]; }

  // --- Where --------------------------------------------------------------------------------

  void resolve() {
    addresses.clear();
    next_address = 0;
    const std::string& host = endpoint().host;
    literal = true;
    error_code not_numeric;
    const auto numeric = asio::ip::make_address(host, not_numeric);
    if (!not_numeric) {
      addresses = {numeric};
    } else if (host == "localhost") {  // loopback by definition; no resolver, no file is asked
      addresses = {asio::ip::address_v4::loopback(), asio::ip::address_v6::loopback()};
    } else if (literal = false; request.is_host == true) {
      bind();  // told to host: whatever the name means, peers may come by any interface
      return;
    } else {
      const std::uint64_t round = begin_round();
      limit(kResolveTimeout, [](State& self) {
        self.resolver.cancel();
        self.unresolved("the name service does not answer");
      });
      resolver.async_resolve(host, "",
                             [self = shared_from_this(), round](
                                 error_code failed, const tcp::resolver::results_type& r) {
                               if (self->done && self->round_number == round) {
                                 self->on_resolved(failed, r);
                               }
                             });
      return;
    }
    decide();
  }

  void unresolved(const std::string& why) {
    report.resolved(turn, {});
    addresses.clear();
    again({Obstacle::unresolved, "the name cannot be resolved (" + why + ")"});
  }

  void on_resolved(const error_code& failed, const tcp::resolver::results_type& results) {
    for (const auto& result : results) {
      const auto address = result.endpoint().address();
      if (std::find(addresses.begin(), addresses.end(), address) == addresses.end()) {
        addresses.push_back(address);
      }
    }
    if (failed || addresses.empty()) {
      unresolved(failed ? failed.message() : "it has no address");
      return;
    }
    decide();
  }

  void decide() {
    std::vector<std::string> texts;
    for (const auto& one : addresses) {
      texts.push_back(one.to_string());
    }
    report.resolved(turn, texts);
    const auto own = std::find_if(addresses.begin(), addresses.end(), [](const auto& address) {
      return is_own_address(address.to_string());
    });
    if (request.is_host == true && turn == 0) {
      bind();
    } else if (!request.is_host && own != addresses.end() && turn == 0) {
      std::rotate(addresses.begin(), own, own + 1);
      elsewhere == Elsewhere::asked || request.endpoints.size() == 1 ? bind() : next_elsewhere();
    } else {
      knock();
    }
  }

  // --- As host ------------------------------------------------------------------------------

  /// The job may have begun long ago, and go on under a coordinator at another endpoint: an agent
  /// that starts anew at the first one must not begin it a second time. Until it knows, its port is
  /// closed: who seeks a coordinator goes on to the next place at once.
  void next_elsewhere() {
    (void)begin_round();
    if (std::exchange(elsewhere, Elsewhere::asking) != Elsewhere::asking ||
        Clock::now() >= elsewhere_until) {
      detour.clear();
      next_address = 0;
    }
    if (!detour.empty() || next_address != 0) {
      knock();
      return;
    }
    turn = (turn + 1) % request.endpoints.size();
    elsewhere = turn == 0 ? Elsewhere::asked : Elsewhere::asking;
    elsewhere_until = Clock::now() + kElsewhereTimeout;
    resolve();
  }

  [[nodiscard]] bool asks_elsewhere() const { return elsewhere == Elsewhere::asking; }

  /// A redirect to our own endpoint is ignored: its sender has not noticed that the coordinator
  /// here died.
  [[nodiscard]] bool is_own_endpoint(const std::string& text, std::uint16_t port) const {
    return asks_elsewhere() && port == request.endpoints.front().port && is_own_address(text);
  }

  void bind() {
    may_host = true;
    const std::uint16_t port = endpoint().port;
    // A name that means loopback on its own machine (127.0.1.1 in Debian's /etc/hosts) means
    // something else on the others: only who writes a loopback address wants loopback alone.
    const bool loopback = literal && addresses.front().is_loopback();
    Listening listening =
        loopback ? listen_at(addresses.front().to_string(), port) : listen_everywhere(port);
    if (listening.socket) {
      Endpoint bound{addresses.empty() ? "::" : addresses.front().to_string(),
                     port_of(listening.socket)};
      succeed(JoinedAsHost{std::move(listening.socket), std::move(bound), why_host()});
    } else if (listening.errno_value != EADDRINUSE) {
      fail(errno_error(listening.errno_value, "cannot listen here", where(),
                       "choose another port, or another host for the endpoint"));
    } else if (request.is_host == true) {
      again({Obstacle::refused, "the port is in use"});
    } else {
      add_loopback();
      knock();  // whoever has the port may be the coordinator
    }
  }

  /// Another agent of this machine may have taken the port on loopback alone, because it calls the
  /// endpoint by another name of this machine than we do.
  void add_loopback() {
    std::erase_if(addresses, [](const auto& one) { return one.is_unspecified(); });
    for (const asio::ip::address& one : {asio::ip::address(asio::ip::address_v4::loopback()),
                                         asio::ip::address(asio::ip::address_v6::loopback())}) {
      if (std::find(addresses.begin(), addresses.end(), one) == addresses.end()) {
        addresses.push_back(one);
      }
    }
    next_address = next_address < addresses.size() ? next_address : 0;
  }

  [[nodiscard]] std::string why_host() const {
    if (request.is_host == true) {
      return host_note(endpoint().host, literal, {});
    }
    const asio::ip::address& own = addresses.front();
    return host_note(endpoint().host, literal, own.to_string(),
                     own.is_loopback() || own.is_unspecified());
  }

  // --- As client ----------------------------------------------------------------------------

  void knock() {
    DDP_CHECK(!addresses.empty(), "there is an address to try");
    on_detour = !detour.empty();
    if (on_detour) {
      address = detour.back().first;
      knocked_port = detour.back().second;
      detour.pop_back();
    } else {
      address = addresses[next_address];
      knocked_port = endpoint().port;
      next_address = (next_address + 1) % addresses.size();
    }
    const std::uint64_t round = begin_round();
    limit(kConnectTimeout, [](State& self) {
      self.again({Obstacle::filtered, "no answer (the host is down, or a firewall drops packets)"});
    });
    socket.async_connect(tcp::endpoint(address, knocked_port),
                         in_round(round, [](State& self, error_code failed, std::size_t) {
                           if (failed == asio::error::connection_reset) {
                             self.ask(was_reset());  // so soon that we never saw it connected
                           } else if (failed) {
                             self.again(connect_trouble(failed == asio::error::connection_refused,
                                                        failed.message()));
                           } else {
                             self.say_hello();
                           }
                         }));
  }

  void say_hello() {
    prepare_beat_socket(socket.native_handle());
    limit(kAnswerTimeout, [](State& self) {
      self.ask({Obstacle::mute,
                "something listens there but does not answer: it does not speak "
                "ddprun's protocol, or it is stopped"});
    });
    request.node.said_at = (asked_at = Clock::now()).time_since_epoch();
    request.node.by_endpoint = request.by_endpoint && !on_detour;
    hello = preamble() + encode(message::Hello{request.node});
    write(hello);
    // Exactly the answer and no byte more: what follows belongs to the client that takes over.
    read(kPreambleBytes, [](State& self) { self.on_preamble(); });
  }

  void on_preamble() {
    const PreambleCheck check = check_preamble(answer);
    if (check.verdict == PreambleVerdict::other_version && !asks_elsewhere()) {
      fail(Error{versions_clause("the coordinator", check.version, "this agent"), where(),
                 "install the same ddprun on all nodes"});
    } else if (check.verdict != PreambleVerdict::good) {
      again(speaks_otherwise());
    } else {
      read(kFrameHeaderBytes, [](State& self) { self.on_header(); });
    }
  }

  void on_header() {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length |= static_cast<std::size_t>(static_cast<unsigned char>(answer[i])) << (8 * i);
    }
    answer_type = static_cast<std::uint8_t>(answer[4]);
    if (length == 0 || length > kAnswerBytesMax) {
      again(speaks_otherwise());
    } else if (length == 1) {
      answer.clear();
      on_answer();
    } else {
      read(length - 1, [](State& self) { self.on_answer(); });
    }
  }

  void on_answer() {
    auto decoded = decode(answer_type, answer);
    if (decoded && std::holds_alternative<message::Accepted>(*decoded)) {
      const std::string peer = to_text(Endpoint{address.to_string(), knocked_port});
      error_code failed;
      const int fd = socket.release(failed);
      if (failed) {
        again({Obstacle::closed, "the connection broke: " + failed.message()});
        return;
      }
      succeed(JoinedAsClient{Fd(fd), peer, std::get<message::Accepted>(*decoded),
                             turn == 0 && !on_detour, asked_at});
    } else if (decoded && std::holds_alternative<message::Moved>(*decoded)) {
      on_moved(std::get<message::Moved>(*decoded));
    } else if (decoded && std::holds_alternative<message::Rejected>(*decoded) &&
               !asks_elsewhere()) {
      const auto& rejected = std::get<message::Rejected>(*decoded);
      was_rejected = true;
      fail(Error{"the coordinator rejected this node: " + rejected.why, where(), rejected.todo});
    } else {
      again(speaks_otherwise());
    }
  }

  /// An agent that is no coordinator: it names the one that it follows, or knows of none.
  void on_moved(const message::Moved& moved) {
    const bool detoured = !detour.empty() || on_detour;
    detour.clear();
    for (const std::string& text : moved.addresses) {
      error_code failed;
      const auto one = asio::ip::make_address(text, failed);
      if (!failed && !detoured && !is_own_endpoint(text, moved.port)) {
        detour.emplace_back(one, moved.port);
      }
    }
    if (detour.empty()) {
      again({Obstacle::refused, "an agent is there that knows of no coordinator yet"});
    } else {
      knock();
    }
  }

  [[nodiscard]] Trouble speaks_otherwise() const {
    return {Obstacle::stranger, describe_listener(answer)};
  }

  /// Reads exactly `size` bytes into `answer`, then goes on.
  void read(std::size_t size, void (*next)(State&)) {
    answer.resize(size);
    asio::async_read(
        socket, asio::buffer(answer),
        in_round(round_number, [next](State& self, error_code failed, std::size_t n) {
          self.answer.resize(failed ? n : self.answer.size());
          if (!failed) {
            next(self);
          } else if (check_preamble(self.answer).verdict == PreambleVerdict::stranger) {
            self.again(self.speaks_otherwise());
          } else if (failed == asio::error::connection_reset || self.write_failed) {
            self.ask(was_reset());
          } else {
            self.ask({Obstacle::closed,
                      "something listens there but closes the connection without "
                      "an answer"});
          }
        }));
  }

  // --- Who is it? ---------------------------------------------------------------------------

  /// Asks a listener that did not answer what it is: once, in other protocols' words.
  void ask(Trouble found) {
    if (asks_elsewhere()) {
      next_elsewhere();
      return;
    }
    if (const auto known = identified.find(address); known != identified.end()) {
      again(known->second.obstacle == Obstacle::none ? std::move(found) : known->second);
      return;
    }
    identified[address] = {};
    unidentified = std::move(found);
    const std::uint64_t round = begin_round();
    limit(kProbeTimeout, [](State& self) { self.again(self.unidentified); });
    socket.async_connect(tcp::endpoint(address, knocked_port),
                         in_round(round, [](State& self, error_code failed, std::size_t) {
                           if (failed) {
                             self.again(self.unidentified);
                           } else {
                             self.probe();
                           }
                         }));
  }

  void probe() {
    write(kStoreProbe);
    limit(kProbeTimeout, [](State& self) {
      self.write(kLineProbe);
      self.limit(kProbeTimeout, [](State& late) { late.again(late.unidentified); });
    });
    answer.resize(kProbeAnswerBytes);
    socket.async_read_some(asio::buffer(answer),
                           in_round(round_number, [](State& self, error_code, std::size_t n) {
                             self.answer.resize(n);
                             if (identify_listener(self.answer).empty()) {
                               self.again(self.unidentified);
                               return;
                             }
                             self.identified[self.address] = self.speaks_otherwise();
                             self.again(self.speaks_otherwise());
                           }));
  }

  void write(std::string_view bytes) {
    asio::async_write(socket, asio::buffer(bytes.data(), bytes.size()),
                      in_round(round_number, [](State& self, error_code failed, std::size_t) {
                        self.write_failed = failed;  // told once: a read then sees an end
                      }));
  }

  // --- Trying again -------------------------------------------------------------------------

  void again(Trouble now) {
    if (asks_elsewhere()) {
      next_elsewhere();
      return;
    }
    (void)begin_round();  // whatever is still under way is of no interest any more
    const auto at = Clock::now();
    const auto instant = at.time_since_epoch();
    trouble = now;
    report.tried(turn,
                 now.obstacle == Obstacle::unresolved || addresses.empty() ? std::string()
                                                                           : address.to_string(),
                 std::move(now), instant);
    const auto tried = at - started;
    if (is_final(at)) {
      fail(verdict(at));
      return;
    }
    if (tried + kLastWords < request.join_timeout && report.due(instant)) {
      for (const std::string& line : report.lines(instant)) {
        log->warn("{}", line);
      }
    }
    const auto left = request.join_timeout - tried;
    timer.expires_after(std::clamp<Clock::duration>(left, milliseconds(1), pause));
    pause = may_host ? kPauseFirst : std::min(2 * pause, kPauseMax);
    timer.async_wait(in_round(round_number, [](State& self, error_code failed, std::size_t) {
      if (failed) {
        return;
      }
      if (!self.detour.empty()) {
        self.knock();
      } else if (self.next_address == 0) {
        self.turn = (self.turn + 1) % self.request.endpoints.size();
        self.resolve();  // all were tried; a name may mean another address by now
      } else {
        self.knock();
      }
    }));
  }

  /// On this machine a taken port is either ours or not, and a few seconds tell. Elsewhere a peer
  /// may come up at any time, also behind a proxy that accepts and closes.
  bool is_final(Clock::time_point at) {
    if (may_host && turn == 0) {
      if (!taken_since) {
        taken_since = at;
      }
      return trouble.obstacle == Obstacle::stranger || trouble.obstacle == Obstacle::mute ||
             at - *taken_since >= kTakenPatience;
    }
    return at - started >= request.join_timeout ||
           (request.endpoints.size() == 1 && report.worst().obstacle == Obstacle::stranger &&
            report.worst_for(at.time_since_epoch()) >= kStrangerPatience);
  }

  [[nodiscard]] Error verdict(Clock::time_point at) const {
    if (may_host && turn == 0) {
      const auto tried = std::chrono::round<seconds>(at - started).count();
      // Of several addresses, the one that was tried last need not be the one that is taken.
      return Error{"port " + std::to_string(endpoint().port) + " is taken by another program (" +
                       report.worst_at(turn).what + ", tried for " + std::to_string(tried) + " s)",
                   where(), "choose another port"};
    }
    return report.verdict(at.time_since_epoch());
  }

  /// "n1 (10.0.0.1) port 29400"
  [[nodiscard]] std::string where() const {
    const std::string& host = endpoint().host;
    const std::string numeric =
        addresses.empty() ? std::string()
                          : (address.is_unspecified() ? addresses.front() : address).to_string();
    return host + (numeric.empty() || numeric == host ? "" : " (" + numeric + ")") + " port " +
           std::to_string(endpoint().port);
  }

  // --- Ends and rounds ----------------------------------------------------------------------

  void succeed(Joined joined) {
    cancel_all();
    std::exchange(done, nullptr)(std::move(joined));
  }

  void fail(Error error) {
    cancel_all();
    std::exchange(done, nullptr)(std::move(error));
  }

  void cancel_all() {
    (void)begin_round();
    resolver.cancel();
  }

  std::uint64_t begin_round() {
    socket.close(write_failed);
    write_failed = {};
    timer.cancel();
    return ++round_number;
  }

  /// Calls `late` after `time`. When the join timeout is over before, a try that it cuts short says
  /// nothing new about its address: what is known from the ones before is the verdict then.
  void limit(milliseconds time, void (*late)(State&)) {
    const auto deadline = started + std::max<Clock::duration>(request.join_timeout, kPauseFirst);
    const auto due = asks_elsewhere() ? elsewhere_until : Clock::now() + time;
    const bool cut = !may_host && !asks_elsewhere() && deadline < due;
    timer.expires_at(cut ? Clock::time_point(deadline) : due);
    timer.async_wait(
        in_round(round_number, [late, cut](State& self, error_code failed, std::size_t) {
          if (!failed && cut && self.report.worst().obstacle != Obstacle::none) {
            self.fail(self.verdict(Clock::now()));
          } else if (!failed) {
            late(self);
          }
        }));
  }

  asio::io_context& io;
  JoinRequest request;
  std::function<void(Result<Joined>)> done;
  std::shared_ptr<spdlog::logger> log;
  tcp::resolver resolver;
  tcp::socket socket;
  asio::steady_timer timer;
  Clock::time_point started;
  Clock::time_point asked_at;
  std::vector<asio::ip::address> addresses;
  std::size_t next_address = 0;
  std::size_t turn = 0;  ///< which of the endpoints
  /// Where a coordinator is by the word of an agent that was knocked at.
  std::vector<std::pair<asio::ip::address, std::uint16_t>> detour;
  bool on_detour = false;
  std::uint16_t knocked_port = 0;
  asio::ip::address address;  ///< the one tried last
  bool literal = false;       ///< the endpoint's host is an address, or localhost
  bool may_host = false;
  enum class Elsewhere : std::uint8_t { unasked, asking, asked };
  Elsewhere elsewhere = Elsewhere::unasked;
  Clock::time_point elsewhere_until;  ///< of the endpoint that is being asked
  std::uint64_t round_number = 0;
  error_code write_failed;
  std::string hello;
  std::string answer;
  std::uint8_t answer_type = 0;
  JoinReport report;
  Trouble trouble;       ///< of the last try
  Trouble unidentified;  ///< of a listener that is being asked what it is
  /// What those said that were asked; nothing of a kind that is known: no obstacle.
  std::map<asio::ip::address, Trouble> identified;
  bool was_rejected = false;
  std::optional<Clock::time_point> taken_since;
  milliseconds pause = kPauseFirst;
};

void JoinAttemptDeleter::operator()(JoinAttempt* attempt) const {
  if (attempt->state->done) {
    attempt->state->done = nullptr;
    attempt->state->cancel_all();
  }
  delete attempt;  // allowed: the deleter of JoinHandle, its one owner
}

bool was_rejected(const JoinHandle& attempt) {
  return attempt && attempt->state->was_rejected;
}

JoinHandle join_endpoint(asio::io_context& io, JoinRequest request,
                         std::function<void(Result<Joined>)> done,
                         std::shared_ptr<spdlog::logger> log) {
  auto state =
      std::make_shared<JoinAttempt::State>(io, std::move(request), std::move(done), std::move(log));
  // Not at once: the caller has no handle yet.
  asio::post(io, [state] {
    if (state->done) {
      state->resolve();
    }
  });
  return JoinHandle(new JoinAttempt{std::move(state)});
}

}  // namespace ddprun
