#include "agent/notice/metadata_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/held_signals.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

/// The longest documented answer has the events of a scale set's hundred VMs.
constexpr std::uint64_t kBodyBytesMax = 64 * 1'024;
constexpr std::uint32_t kHeaderBytesMax = 8 * 1'024;
/// The service is on this very machine, or its host.
constexpr std::chrono::seconds kConnectPatience{2};

/// As other programs name a server: without the port that HTTP means anyway (RFC 9110, 7.2).
std::string host_header(const Endpoint& server) {
  std::string text = to_text(server);
  return server.port == 80 ? text.substr(0, text.rfind(':')) : text;
}

/// 101 would end HTTP on this connection; nobody has asked for that.
bool is_interim(unsigned status) {
  return status >= 100 && status < 200 && status != 101;
}

/// No body: the only PUT asks for a token, by headers alone.
http::request<http::empty_body> to_http(const MetadataRequest& question, const Endpoint& server) {
  http::request<http::empty_body> request(question.is_put ? http::verb::put : http::verb::get,
                                          question.target, 11);
  request.set(http::field::host, host_header(server));
  request.set(http::field::user_agent, "ddprun");
  for (const auto& [name, value] : question.headers) {
    request.set(name, value);
  }
  request.keep_alive(true);
  request.prepare_payload();  // a PUT without a body says that it has none
  return request;
}

}  // namespace

/// Callbacks, not a coroutine: each step has one successor, and the agent's other connections are
/// written in the same way.
struct MetadataClient::Impl {
  Impl(asio::io_context& the_io, Endpoint endpoint)
      : io(the_io), server(std::move(endpoint)), resolver(the_io) {}

  void ask(const MetadataRequest& question, OnAnswer on_answer) {
    DDP_CHECK(!answered, "one question at a time");
    answered = std::move(on_answer);
    request = to_http(question, server);
    patience = question.patience;
    is_ready() ? send(true) : connect();
  }

  /// What came behind the answer before is none to the next question.
  [[nodiscard]] bool is_ready() {
    error_code failed;
    return stream && stream->socket().is_open() && buffer.size() == 0 &&
           stream->socket().available(failed) == 0 && !failed;
  }

  void connect() {
    // Nothing of the connection before counts: what it had sent beyond its answer, say.
    stream.emplace(io);
    buffer.clear();
    error_code not_numeric;
    const auto address = asio::ip::make_address(server.host, not_numeric);
    if (!not_numeric) {
      stream->expires_after(kConnectPatience);
      stream->async_connect(tcp::endpoint(address, server.port),
                            [this](error_code failed) { connected(failed); });
      return;
    }
    const HeldSignals held;  // the resolver has a thread of its own
    resolver.async_resolve(server.host, std::to_string(server.port),
                           [this](error_code failed, const tcp::resolver::results_type& all) {
                             resolved(failed, all);
                           });
  }

  /// A host of several addresses is tried at each of them, within one patience.
  void resolved(error_code failed, const tcp::resolver::results_type& all) {
    if (failed) {
      return fail(failed);
    }
    stream->expires_after(kConnectPatience);
    stream->async_connect(
        all, [this](error_code error, const tcp::endpoint& /*where*/) { connected(error); });
  }

  void connected(error_code failed) { failed ? fail(failed) : send(false); }

  void send(bool was_open) {
    stream->expires_after(patience);
    http::async_write(*stream, request, [this, was_open](error_code failed, std::size_t) {
      failed ? broken(failed, was_open) : receive(was_open);
    });
  }

  /// A parser reads one message, so each answer has its own.
  void receive(bool was_open) {
    parser.emplace();
    parser->body_limit(kBodyBytesMax);
    parser->header_limit(kHeaderBytesMax);
    http::async_read(*stream, buffer, *parser, [this, was_open](error_code failed, std::size_t) {
      if (failed) {
        return broken(failed, was_open);
      }
      // 100 Continue and its like come before the answer (RFC 9110, 15.2). How many may come, the
      // patience for the whole answer bounds.
      is_interim(parser->get().result_int()) ? receive(was_open) : finish();
    });
  }

  /// A connection that was idle may have been closed meanwhile. One that says nothing, or nonsense,
  /// would do so again.
  void broken(error_code failed, bool was_open) {
    const bool was_closed = failed == http::error::end_of_stream ||
                            failed == asio::error::connection_reset ||
                            failed == asio::error::broken_pipe || failed == asio::error::eof;
    was_open&& was_closed ? connect() : fail(failed);
  }

  void finish() {
    const auto& message = parser->get();
    const auto text = [&message](const auto& name) { return std::string(message[name]); };
    MetadataAnswer answer{message.result_int(), message.body(), text(http::field::etag),
                          text("Metadata-Flavor")};
    // A server of HTTP/1.0, or one that says Connection: close, closes behind its answer.
    if (parser->keep_alive()) {
      stream->expires_never();
    } else {
      stream.reset();
    }
    tell(std::move(answer));
  }

  void fail(error_code failed) {
    stream.reset();
    tell(Error{failed == beast::error::timeout ? "no answer came in time" : failed.message(),
               "http://" + to_text(server),
               {}});
  }

  /// The next question may come from within: so nothing of this one is touched after it.
  void tell(const Result<MetadataAnswer>& answer) { std::exchange(answered, nullptr)(answer); }

  asio::io_context& io;
  const Endpoint server;
  tcp::resolver resolver;
  std::optional<beast::tcp_stream> stream;  ///< none: there is no connection
  beast::flat_buffer buffer;
  http::request<http::empty_body> request;
  std::optional<http::response_parser<http::string_body>> parser;
  std::chrono::seconds patience{};
  OnAnswer answered;  ///< null: nothing is asked
};

MetadataClient::MetadataClient(asio::io_context& io, Endpoint server)
    : impl_(std::make_unique<Impl>(io, std::move(server))) {}

MetadataClient::~MetadataClient() = default;

void MetadataClient::ask(const MetadataRequest& question, OnAnswer on_answer) {
  impl_->ask(question, std::move(on_answer));
}

}  // namespace ddprun
