#include "agent/operations/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <list>
#include <nlohmann/json.hpp>
#include <utility>

#include "rendezvous/base/socket.h"
#include "rendezvous/control/acceptor.h"

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

/// One request and its answer. Whatever comes, close() is called once: at the end, at an error, or
/// at the deadline, which is set anew for each of the three parts: request, answer, and the rest.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Gone = std::function<void(HttpConnection*)>;

  HttpConnection(asio::io_context& io, Fd socket, Gone gone)
      : socket_(io, asio::generic::stream_protocol(AF_UNIX, 0), socket.release()),
        deadline_(io),
        gone_(std::move(gone)),
        from_(net::far_end(socket_.native_handle()).host()) {
    // A fixed room: whatever a client sends, the agent's memory does not grow with it.
    parser_.header_limit(kHttpHeaderBytesMax);
    parser_.body_limit(kHttpBodyBytesMax);
  }

  void read(const HttpServer::Handler& handler) {
    limit();
    http::async_read(socket_, buffer_, parser_,
                     [self = shared_from_this(), &handler](Failure failure, std::size_t) {
                       if (self->over_) {
                         return;  // its server may be gone, and the handler with it
                       }
                       if (!failure) {
                         self->limit();  // a handler that never answers holds nothing, either
                         self->hand_over(handler);
                       } else if (auto answer = answer_to(failure)) {
                         self->answer(std::move(*answer));
                       } else {
                         self->close();
                       }
                     });
  }

  /// What somebody else has read from it: it comes first. More than a request may have ends it.
  void put_back(const std::string& said) {
    const std::size_t kept = std::min(said.size(), buffer_.max_size());
    boost::asio::buffer_copy(buffer_.prepare(kept), boost::asio::buffer(said));
    buffer_.commit(kept);
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
    http::async_write(socket_, response_,
                      [self = shared_from_this()](Failure failure, std::size_t) {
                        if (!self->over_) {
                          failure ? self->close() : self->linger();
                        }
                      });
  }

  void close() {
    if (!std::exchange(over_, true)) {
      deadline_.cancel();
      Failure ignored;
      socket_.close(ignored);
      gone_(this);
    }
  }

 private:
  /// The handler gets a weak pointer: an answer that takes long keeps no connection alive.
  void hand_over(const HttpServer::Handler& handler) {
    const auto& read = parser_.get();
    const std::string target(read.target());
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

  /// To close a socket that has unread bytes resets it, and the other end may lose the answer.
  void linger() {
    Failure ignored;
    socket_.shutdown(asio::generic::stream_protocol::socket::shutdown_send, ignored);
    discard();
  }

  /// Up to the deadline, for who goes on sending.
  void discard() {
    socket_.async_read_some(asio::buffer(rest_),
                            [self = shared_from_this()](Failure failure, std::size_t) {
                              if (!self->over_) {
                                failure ? self->close() : self->discard();
                              }
                            });
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

  asio::generic::stream_protocol::socket socket_;
  asio::steady_timer deadline_;
  Gone gone_;
  std::string from_;
  boost::beast::flat_buffer buffer_{kHttpHeaderBytesMax + kHttpBodyBytesMax};
  http::request_parser<http::string_body> parser_;
  http::response<http::string_body> response_;
  std::array<char, 512> rest_{};
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
    const auto newest = keep(std::move(channel.socket));
    if (admitted) {
      newest->read(handler);
    } else {
      newest->answer(http_error(403, "this agent belongs to another user"));
    }
  }

  /// Counted with the others, whoever has accepted it.
  std::shared_ptr<HttpConnection> keep(Fd socket) {
    // Not the newest: who holds many connections open would keep all others out.
    if (connections.size() >= kHttpConnectionsMax) {
      const auto oldest = connections.front();
      oldest->close();
    }
    connections.push_back(
        std::make_shared<HttpConnection>(io, std::move(socket), [this](HttpConnection* one) {
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

void HttpServer::adopt(Fd connection, const std::string& said) {
  const auto newest = impl_->keep(std::move(connection));
  newest->put_back(said);
  newest->read(impl_->handler);
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
