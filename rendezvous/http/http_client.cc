#include "rendezvous/http/http_client.h"

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <optional>
#include <sstream>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/base/held_signals.h"
#include "rendezvous/tls/tls_session.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::steady_clock;
using tcp = asio::ip::tcp;

constexpr std::uint32_t kHeaderBytesMax = 8 * 1'024;
/// A record of TLS at most; longer answers come in several reads.
constexpr std::size_t kReadBytes = 16 * 1'024;

/// As other programs name a server: without the port that the protocol means anyway (RFC 9110,
/// 7.2).
std::string host_header(const HttpService& service) {
  std::string text = to_text(service.endpoint);
  const int meant = service.tls ? 443 : 80;
  return service.endpoint.port == meant ? text.substr(0, text.rfind(':')) : text;
}

std::string to_bytes(const HttpCall& question, const HttpService& service) {
  http::request<http::string_body> request;
  request.version(11);
  request.method_string(question.method);
  request.target(question.target);
  request.set(http::field::host, host_header(service));
  request.set(http::field::user_agent, "ddprun");
  for (const auto& [name, value] : question.headers) {
    request.set(name, value);
  }
  request.body() = question.body;
  request.keep_alive(true);
  request.prepare_payload();  // a PUT without a body says that it has none
  std::ostringstream bytes;
  bytes << request;
  return std::move(bytes).str();
}

/// A token that somebody put in a file may be anything. Beast throws at a value of 64 KiB.
constexpr std::size_t kValueBytesMax = 32 * 1'024;

/// Why it cannot be sent; empty: it can. A line break within would begin another header.
std::string why_unsendable(const HttpCall& question) {
  for (const auto& [name, value] : question.headers) {
    if (value.size() > kValueBytesMax) {
      return "the header " + name + " would have " + std::to_string(value.size()) +
             " bytes, more than " + std::to_string(kValueBytesMax);
    }
    if (value.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      return "the header " + name + " would have a line break or a NUL in it";
    }
  }
  return {};
}

/// 101 would end HTTP on this connection; nobody has asked for that.
bool is_interim(unsigned status) {
  return status >= 100 && status < 200 && status != 101;
}

/// What an idle connection shows that its server has closed.
bool is_closed(error_code failed) {
  return failed == asio::error::eof || failed == asio::error::connection_reset ||
         failed == asio::error::broken_pipe;
}

}  // namespace

std::string to_text(const HttpService& service) {
  return (service.tls ? "https://" : "http://") + to_text(service.endpoint);
}

/// Callbacks, not a coroutine: each step has one successor, and the agent's other connections are
/// written in the same way.
struct HttpClient::Impl : std::enable_shared_from_this<HttpClient::Impl> {
  Impl(asio::io_context& the_io, HttpService the_service)
      : io(the_io),
        service(std::move(the_service)),
        tls(service.tls),
        resolver(the_io),
        resolve_timer(the_io) {}

  /// For callbacks of operations: they do nothing once the client is gone.
  template <class Action>
  auto while_alive(Action action) {
    return [weak = weak_from_this(), action](error_code failed, const auto&... how) {
      if (const auto self = weak.lock(); self && self->answered) {
        action(*self, failed, how...);
      }
    };
  }

  void ask(HttpCall request, OnAnswer on_answer) {
    DDP_CHECK(!answered, "one question at a time");
    answered = std::move(on_answer);
    question = std::move(request);
    if (std::string why = why_unsendable(question); !why.empty()) {
      return asio::post(io, [weak = weak_from_this(), why = std::move(why)] {
        if (const auto self = weak.lock(); self && self->answered) {
          self->fail(why);
        }
      });
    }
    was_open = is_ready();
    was_open ? send() : connect();
  }

  /// What came behind the answer before is none to the next question. (Over TLS what waits in the
  /// socket may be a ticket for another session, and no answer.)
  [[nodiscard]] bool is_ready() {
    error_code failed;
    return stream && stream->socket().is_open() && plain.empty() &&
           (session || stream->socket().available(failed) == 0) && !failed;
  }

  // --- A connection ---------------------------------------------------------------------------

  void connect() {
    stream.reset();
    session.reset();
    plain.clear();
    error_code not_numeric;
    const auto address = asio::ip::make_address(service.endpoint.host, not_numeric);
    if (!not_numeric) {
      addresses = {tcp::endpoint(address, service.endpoint.port)};
    }
    if (addresses.empty()) {
      return resolve();
    }
    connect_until = steady_clock::now() + service.connect_patience;
    connect_to(0);
  }

  /// A name service that is down takes its time; its answer then serves a later question.
  void resolve() {
    const std::uint64_t round = ++resolve_round;
    resolve_timer.expires_after(service.connect_patience);
    resolve_timer.async_wait(while_alive([round](Impl& self, error_code cancelled) {
      if (!cancelled && self.resolve_round == round) {
        ++self.resolve_round;
        self.fail(beast::error::timeout);
      }
    }));
    const HeldSignals held;  // the resolver has a thread of its own
    resolver.async_resolve(service.endpoint.host, std::to_string(service.endpoint.port),
                           [weak = weak_from_this(), round](
                               error_code failed, const tcp::resolver::results_type& all) {
                             if (const auto self = weak.lock()) {
                               self->addresses.assign(all.begin(), all.end());
                               self->resolved(round, failed);
                             }
                           });
  }

  void resolved(std::uint64_t round, error_code failed) {
    if (resolve_round != round || !answered) {
      return;
    }
    ++resolve_round;
    resolve_timer.cancel();
    failed ? fail(failed) : connect();
  }

  /// A host of several addresses is tried at each of them, with an equal part of the time that is
  /// left.
  void connect_to(std::size_t at) {
    const auto left = connect_until - steady_clock::now();
    const auto parts = static_cast<std::int64_t>(addresses.size() - at);
    stream.emplace(io);
    stream->expires_after(std::max(left / parts, steady_clock::duration(0)));
    stream->async_connect(addresses[at], while_alive([at](Impl& self, error_code failed) {
                            if (!failed) {
                              self.connected();
                            } else if (at + 1 < self.addresses.size()) {
                              self.connect_to(at + 1);
                            } else {
                              self.fail(failed);
                            }
                          }));
  }

  /// Over TLS the client speaks first, and asks nothing before it knows whom.
  void connected() {
    was_open = false;
    if (!service.tls) {
      return send();
    }
    is_sent = false;
    stream->expires_at(connect_until);
    answer_until = connect_until;
    renew_tls();
    session.emplace(tls, service.endpoint.host);
    exchange(session->take_output());
  }

  /// The files of certificates are replaced now and then, and then this side shows the new ones.
  void renew_tls() {
    auto renewed = TlsContext::renewed(tls);
    stale_files = renewed ? std::string() : renewed.error().sentence();
    if (renewed) {
      tls = std::move(*renewed);
    }
  }

  // --- A question and its answer ---------------------------------------------------------------

  /// Over TLS the end of the handshake goes with it.
  /// The patience for the connection is over, and that for the answer begins.
  void send() {
    is_sent = true;
    begin_answer();
    answer_until = steady_clock::now() + question.patience;
    stream->expires_at(answer_until);
    std::string bytes = to_bytes(question, service);
    if (session) {
      session->send(bytes);
      bytes = session->take_output();
    }
    exchange(std::move(bytes));
  }

  /// A parser reads one message, so each answer has its own.
  void begin_answer() {
    parser.emplace();
    parser->eager(true);
    parser->body_limit(service.body_bytes_max);
    parser->header_limit(kHeaderBytesMax);
  }

  /// Writes `bytes`, if any; reads what comes then.
  void exchange(std::string bytes) {
    if (bytes.empty()) {
      return read();
    }
    output = std::move(bytes);
    asio::async_write(*stream, asio::buffer(output),
                      while_alive([](Impl& self, error_code failed, std::size_t /*size*/) {
                        failed ? self.broken(failed) : self.read();
                      }));
  }

  void read() {
    stream->async_read_some(
        asio::buffer(input), while_alive([](Impl& self, error_code failed, std::size_t size) {
          failed ? self.broken(failed) : self.received(std::string_view(self.input.data(), size));
        }));
  }

  /// One path for both: over TLS what came may be part of the handshake, and hold no text at all.
  /// A read that has bytes at once succeeds also behind the stream's own end of time.
  void received(std::string_view bytes) {
    if (steady_clock::now() >= answer_until) {
      return fail(beast::error::timeout);
    }
    if (!session) {
      plain.append(bytes);
      return parse();
    }
    session->receive(bytes, plain);
    if (!session->failure().empty()) {
      // A file that could not be read anew may be why.
      return fail(session->failure() + (stale_files.empty() ? "" : "; and " + stale_files));
    }
    if (!is_sent && session->is_established()) {
      return send();
    }
    if (is_sent && !plain.empty()) {
      return parse();
    }
    session->is_closed() ? broken(asio::error::eof) : exchange(session->take_output());
  }

  /// An interim answer comes before the real one (RFC 9110, 15.2). How many may come, the patience
  /// for the whole answer bounds.
  void parse() {
    while (!plain.empty()) {
      error_code failed;
      const std::size_t used = parser->put(asio::buffer(plain), failed);
      plain.erase(0, used);
      if (failed && failed != http::error::need_more) {
        return fail(failed);
      }
      if (parser->is_done()) {
        if (!is_interim(parser->get().result_int())) {
          return finish();
        }
        begin_answer();
      } else if (used == 0 || failed) {
        break;
      }
    }
    // A body is taken as it comes, so this is a header, a chunk's extension or a trailer.
    if (plain.size() > kHeaderBytesMax + kReadBytes) {
      return fail(http::error::header_limit);
    }
    if (session && session->is_closed()) {
      return broken(asio::error::eof);
    }
    exchange(session ? session->take_output() : std::string());
  }

  /// A connection that was idle may have been closed meanwhile. One that says nothing, or nonsense,
  /// would do so again. An answer may end where the connection does; over TLS only where the server
  /// has said so.
  void broken(error_code failed) {
    const bool may_end = failed == asio::error::eof && (!session || session->is_closed());
    if (was_open && !parser->got_some() && is_closed(failed)) {
      return connect();
    }
    if (is_sent && parser->got_some() && may_end) {
      error_code incomplete;
      parser->put_eof(incomplete);
      if (!incomplete && parser->is_done()) {
        return finish();
      }
    }
    fail(failed);
  }

  void finish() {
    const auto& message = parser->get();
    HttpReply answer{message.result_int(), message.body(), {}};
    for (const auto& header : message) {
      answer.headers.emplace_back(header.name_string(), header.value());
    }
    // A server of HTTP/1.0, or one that says Connection: close, closes behind its answer.
    if (parser->keep_alive()) {
      stream->expires_never();
    } else {
      stream.reset();
    }
    tell(std::move(answer));
  }

  void fail(error_code failed) {
    // A server that has not read all that came resets the connection when it closes it.
    if (is_closed(failed) && session && !session->is_established()) {
      return fail("it closed the connection within the TLS handshake; maybe it speaks no TLS");
    }
    if (failed == asio::error::eof) {
      return fail("it closed the connection before the answer was complete");
    }
    fail(failed == beast::error::timeout ? "no answer came in time" : failed.message());
  }

  /// A connection of which one question failed may still bring its answer: it is not used again.
  void fail(const std::string& why) {
    stream.reset();
    addresses.clear();  // the name may mean another host by now
    tell(Error{why, to_text(service), {}});
  }

  /// The next question may come from within: so nothing of this one is touched after it.
  void tell(const Result<HttpReply>& answer) { std::exchange(answered, nullptr)(answer); }

  asio::io_context& io;
  const HttpService service;
  std::shared_ptr<const TlsContext> tls;  ///< of the newest connection
  std::string stale_files;  ///< why that is an older one than its files are; empty: it is not
  tcp::resolver resolver;
  asio::steady_timer resolve_timer;
  std::uint64_t resolve_round = 0;       ///< of the answer that is waited for
  std::vector<tcp::endpoint> addresses;  ///< of the service; empty: not known
  steady_clock::time_point connect_until;
  steady_clock::time_point answer_until;    ///< first of the handshake, then of the answer
  std::optional<beast::tcp_stream> stream;  ///< none: there is no connection
  std::optional<TlsSession> session;        ///< where it is over TLS
  std::array<char, kReadBytes> input;
  std::string output;
  std::string plain;  ///< came, and is not parsed yet
  std::optional<http::response_parser<http::string_body>> parser;
  HttpCall question;
  bool was_open = false;  ///< the connection, before the question
  bool is_sent = false;   ///< the question; before that only the handshake is
  OnAnswer answered;      ///< null: nothing is asked
};

HttpClient::HttpClient(asio::io_context& io, HttpService service)
    : impl_(std::make_shared<Impl>(io, std::move(service))) {}

HttpClient::~HttpClient() {
  impl_->answered = nullptr;
  impl_->resolve_timer.cancel();
  impl_->stream.reset();
}

void HttpClient::ask(HttpCall request, OnAnswer on_answer) {
  impl_->ask(std::move(request), std::move(on_answer));
}

}  // namespace ddprun
