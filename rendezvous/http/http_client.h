// HttpClient: asks one HTTP/1.1 server, one question at a time, over a connection that is kept
// open, in plain text or over TLS. Nothing blocks, time and size are bounded, and no proxy is used:
// what is asked belongs to this machine or its cluster. Lives on the loop of its io_context.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/http/http_message.h"
#include "rendezvous/tls/tls_context.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

struct HttpService {
  Endpoint endpoint;
  std::shared_ptr<const TlsContext> tls = nullptr;  ///< null: plain text
  /// For the name, and again for the connection: all addresses of the name share it.
  std::chrono::milliseconds connect_patience{2'000};
  std::uint64_t body_bytes_max = 64 * 1'024;
};

/// "http://host:port", "https://host:port".
std::string to_text(const HttpService& service);

class HttpClient {
 public:
  /// The error's `where` is the server, its `what` a name that is not resolved, a connection that
  /// is refused, silence, a certificate that is not trusted, an answer that is no HTTP or too long.
  using OnAnswer = std::function<void(const Result<HttpReply>& answer)>;

  HttpClient(boost::asio::io_context& io, HttpService service);
  /// A question that is under way gets no answer any more.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// One call each time, on the loop and not from within; it may ask again, or destroy this. A
  /// server may have closed a connection that was idle: then the question is asked once more over a
  /// new one, so it may arrive twice.
  void ask(HttpCall request, OnAnswer on_answer);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
