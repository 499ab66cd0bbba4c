// HttpServer: a small HTTP/1.1 server on the agent's loop, for few and short requests: ddpctl's
// over a Unix socket, probes' and Prometheus' over TCP. One request for each connection, which the
// server closes.
//
// Nobody who connects can hold anything up: a connection has a limited time and memory, and of too
// many the oldest goes. Without connections it has no timer and costs nothing.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/channel.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// Names and header lines of a request, in bytes. Prometheus sends some 400.
inline constexpr std::size_t kHttpHeaderBytesMax = 8UL * 1024;
/// A name is the most that a request has to say beside its first line.
inline constexpr std::size_t kHttpBodyBytesMax = 1024;
/// Of one server at a time; each has a buffer of about the size of a header, and its answer.
inline constexpr std::size_t kHttpConnectionsMax = 16;
/// For the request to come, and once more for its answer to be taken.
inline constexpr std::chrono::milliseconds kHttpPatience{5'000};

struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< "/stacks"
  std::string query;   ///< behind the ?; may be empty
  std::string body;    ///< at most kHttpBodyBytesMax
  std::string from;    ///< address of who asks, numeric; empty: over a Unix socket
};
/// The value of "name=value" in a query of such pairs with & between them. Pure.
std::optional<std::string_view> query_value(std::string_view query, std::string_view name);

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string allow = {};  ///< with 405: the methods that the path has
};
/// {"error": "..."} with this status.
HttpAnswer http_error(int status, const std::string& sentence);

class HttpServer {
 public:
  /// Called once for each request, on the loop. `answer` may be called later, once, and also when
  /// the connection or the server is gone.
  using Handler =
      std::function<void(const HttpRequest& request, std::function<void(HttpAnswer)> answer)>;
  /// Which connections are taken; the others get 403.
  using Admits = std::function<bool(int connection)>;

  /// `listener` is a stream socket that listens and does not block; empty: connections come by
  /// adopt() alone.
  HttpServer(boost::asio::io_context& io, Fd listener, Admits admits, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Serves a connection that somebody else has accepted, and admitted. `said` has been read from
  /// it already.
  void adopt(Channel connection, const std::string& said);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
