#include "agent/operations/http_server.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/acceptor.h"
#include "rendezvous/control/byte_stream.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Failure = boost::system::error_code;

/// The answer to a request that cannot be read; none: the connection has ended.
std::optional<HttpAnswer> answer_to(const Failure& failure) {
  if (failure == http::error::header_limit || failure == http::error::buffer_overflow) {
    return http_error(431, "the header of the request is too long");
  }
  if (failure == http::error::body_limit) {
    return http_error(413, "the body of the request is too long");
  }
  // All others of this category are about what was sent; those of the system are about the socket.
  if (failure.category() == make_error_code(http::error::bad_method).category() &&
      failure != http::error::end_of_stream && failure != http::error::partial_message) {
    return http_error(400, "this is no HTTP request");
  }
  return std::nullopt;
}

/// As a proxy is asked, "http://HOST/PATH", a server answers, too (RFC 9112, section 3.2.2).
std::string_view path_of(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (!target.starts_with(kScheme)) {
    return target;
  }
  const std::size_t path = target.find('/', kScheme.size());
  return path == std::string_view::npos ? "/" : target.substr(path);
}

/// What is read at once.
constexpr std::size_t kReadBytes = 8 * 1'024;

/// One request and its answer. Whatever comes, close() is called once: at the end, at an error, or
/// at the deadline, which is set anew for each of the three parts: request, answer, and the rest.
class HttpConnection : public std::enable_shared_from_this<HttpConnection>,
                       private ByteStreamOwner {
 public:
  using Gone = std::function<void(HttpConnection*)>;

  HttpConnection(asio::io_context& io, Channel channel, Gone gone)
      : deadline_(io),
        gone_(std::move(gone)),
        from_(net::far_end(channel.socket.get()).host()),
        stream_(ByteStream::create(io, std::move(channel), *this)) {
    // A fixed room: whatever a client sends, the agent's memory does not grow with it.
    parser_.header_limit(kHttpHeaderBytesMax);
    parser_.body_limit(kHttpBodyBytesMax);
    parser_.eager(true);
  }

  void read(const HttpServer::Handler& handler) {
    handler_ = &handler;
    limit();
    read_on();
  }

  /// Once; the handler may call it late, when the connection has been closed already.
  void answer(HttpAnswer told) {
    if (over_ || answered_) {
      return;
    }
    answered_ = true;
    limit();
    response_.result(static_cast<unsigned>(told.status));
    response_.version(11);
    response_.keep_alive(false);
    response_.set(http::field::content_type, told.type);
    response_.set(http::field::cache_control, "no-store");
    if (!told.allow.empty()) {
      response_.set(http::field::allow, told.allow);
    }
    response_.set("X-Content-Type-Options", "nosniff");
    // For the page: it runs its own script, and asks nobody but this server. No other page may show
    // it within itself.
    response_.set("Content-Security-Policy",
                  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                  "connect-src 'self'; frame-ancestors 'none'");
    response_.body() = std::move(told.body);
    response_.prepare_payload();
    // To HEAD all is said of the body but the body itself (RFC 9110, section 9.3.2).
    if (is_head_) {
      response_.body().clear();
    }
    // Whole, and not by parts: over TLS it is cut into records in any case.
    std::ostringstream bytes;
    bytes << response_;
    stream_->write(bytes.str());
    // To close a socket that has unread bytes resets it, and the other end may lose the answer.
    stream_->finish_writing();
    if (!reading_) {
      read_on();
    }
  }

  /// The handler has the request, and is about to answer.
  [[nodiscard]] bool is_served() const { return asked_ && !answered_; }

  void close() {
    if (!std::exchange(over_, true)) {
      deadline_.cancel();
      stream_->close();
      gone_(this);
    }
  }

 private:
  /// The handler gets a weak pointer: an answer that takes long keeps no connection alive.
  void hand_over(const HttpServer::Handler& handler) {
    const auto& read = parser_.get();
    const std::string target(path_of(read.target()));
    const auto mark = target.find('?');
    HttpRequest request{std::string(read.method_string()), target.substr(0, mark),
                        mark == std::string::npos ? "" : target.substr(mark + 1), read.body(),
                        from_};
    is_head_ = read.method() == http::verb::head;
    handler(request, [weak = weak_from_this()](HttpAnswer told) {
      if (const auto self = weak.lock()) {
        self->answer(std::move(told));
      }
    });
  }

  void read_on() {
    reading_ = true;
    stream_->read_some(kReadBytes);
  }

  /// After a whole request, or a wrong one, the rest is dropped: up to the deadline, for who goes
  /// on sending.
  void on_bytes(std::string bytes) override {
    const auto alive = shared_from_this();
    reading_ = false;
    if (answered_) {
      read_on();
    } else if (const Failure failure = take(bytes); failure) {
      auto wrong = answer_to(failure);
      wrong ? answer(std::move(*wrong)) : close();
    } else if (!parser_.is_done()) {
      read_on();
    } else if (!std::exchange(asked_, true)) {
      limit();  // a handler that never answers holds nothing, either
      hand_over(*handler_);
    }
  }

  /// The parser takes whole lines, so what is left of one is kept until its rest comes. A line
  /// without an end is given up at the limit.
  Failure take(const std::string& bytes) {
    unparsed_ += bytes;
    Failure failure;
    unparsed_.erase(0, parser_.put(asio::buffer(unparsed_), failure));
    if (failure == http::error::need_more) {
      failure = {};
    }
    const bool fits = unparsed_.size() <= kHttpHeaderBytesMax + kHttpBodyBytesMax;
    return failure || fits ? failure : make_error_code(http::error::buffer_overflow);
  }

  /// Before the request is whole there is nobody to answer; after the answer it is what is waited
  /// for.
  void on_stream_end(const StreamEnd& /*end*/) override {
    const auto alive = shared_from_this();
    close();
  }

  /// Replaces the deadline before. A timer is there only as long as a connection is.
  void limit() {
    deadline_.expires_after(kHttpPatience);
    deadline_.async_wait([weak = weak_from_this()](Failure failure) {
      if (const auto self = weak.lock(); self && !failure) {
        self->close();
      }
    });
  }

  asio::steady_timer deadline_;
  Gone gone_;
  std::string from_;
  std::shared_ptr<ByteStream> stream_;
  const HttpServer::Handler* handler_ = nullptr;  ///< its server's, which closes this one first
  std::string unparsed_;
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> response_;
  bool reading_ = false;
  bool asked_ = false;  ///< the handler has the request
  bool is_head_ = false;
  bool answered_ = false;
  bool over_ = false;
};

}  // namespace

struct HttpServer::Impl : private AcceptorHandler {
  Impl(asio::io_context& the_io, Fd listener, Admits the_admits, Handler the_handler)
      : io(the_io), admits(std::move(the_admits)), handler(std::move(the_handler)) {
    if (listener) {
      acceptor = Acceptor::create(io, std::move(listener), *this, Credentials{});
      acceptor->start();
    }
  }

  /// Who is not admitted gets a sentence, so that a person sees why nothing comes.
  void on_accepted(Channel channel) override {
    const bool admitted = !admits || admits(channel.socket.get());
    const auto newest = keep(std::move(channel));
    if (admitted) {
      newest->read(handler);
    } else {
      newest->answer(http_error(403, "this agent belongs to another user"));
    }
  }

  /// Counted with the others, whoever has accepted it.
  std::shared_ptr<HttpConnection> keep(Channel channel) {
    // Not the newest: who holds many connections open would keep all others out. Nor one whose
    // answer is being made, such as stacks that take seconds.
    if (connections.size() >= kHttpConnectionsMax) {
      const auto found = std::find_if(connections.begin(), connections.end(),
                                      [](const auto& one) { return !one->is_served(); });
      const auto oldest = found != connections.end() ? *found : connections.front();
      oldest->close();
    }
    connections.push_back(
        std::make_shared<HttpConnection>(io, std::move(channel), [this](HttpConnection* one) {
          connections.remove_if([one](const auto& kept) { return kept.get() == one; });
        }));
    return connections.back();
  }

  asio::io_context& io;
  Admits admits;
  Handler handler;
  std::list<std::shared_ptr<HttpConnection>> connections;  ///< the oldest first
  std::shared_ptr<Acceptor> acceptor;                      ///< null: nobody listens
};

HttpServer::HttpServer(asio::io_context& io, Fd listener, Admits admits, Handler handler)
    : impl_(
          std::make_shared<Impl>(io, std::move(listener), std::move(admits), std::move(handler))) {}

/// Answers that are still to come find no connection, and are dropped.
HttpServer::~HttpServer() {
  if (impl_->acceptor) {
    impl_->acceptor->close();
  }
  // Each takes itself out of the list.
  const auto open = impl_->connections;
  for (const auto& one : open) {
    one->close();
  }
}

/// What was read comes first.
void HttpServer::adopt(Channel connection, const std::string& said) {
  connection.unread.insert(0, said);
  impl_->keep(std::move(connection))->read(impl_->handler);
}

/// For people who read it by curl as for ddpctl, which shows the sentence.
HttpAnswer http_error(int status, const std::string& sentence) {
  const nlohmann::json body = {{"error", sentence}};
  return {status, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

/// Nothing is unescaped: all values that are asked for are numbers.
std::optional<std::string_view> query_value(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const auto equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) {
      return pair.substr(equals + 1);
    }
  }
  return std::nullopt;
}

}  // namespace ddprun
