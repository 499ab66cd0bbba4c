// StoreConnection: the bytes between a store's client and its server: a blocking connection with a
// deadline on every call. What the bytes mean, but for the handshake, is StoreClient's.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/socket.h"

namespace ddprun {

/// Move-only. Every failure but an answer that does not come in time closes it for good: what was
/// half sent or half received cannot be made whole, and every later call fails at once.
class StoreConnection {
 public:
  using Timeout = std::chrono::milliseconds;
  /// The server's own answers are waited for at least this long: it may just be busy.
  static constexpr Timeout kAnswerGrace{1'000};

  /// Connects, retrying while nobody listens yet, and shakes hands. The Error names host, address,
  /// port, and how long was tried.
  static Result<StoreConnection> open(const Endpoint& endpoint, Timeout timeout);

  Result<void> send(const std::string& request, net::Deadline deadline);
  /// All `size` bytes.
  Result<void> receive(char* bytes, std::size_t size, net::Deadline deadline);
  Result<std::int64_t> receive_i64(net::Deadline deadline);
  /// A length, and as many bytes.
  Result<std::string> receive_bytes(net::Deadline deadline);
  /// False at the deadline: nothing has come, and the connection is as it was.
  [[nodiscard]] bool wait_for_bytes(net::Deadline deadline) const;

  /// Closes it, for this reason.
  Error broken(const std::string& what);
  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  /// "127.0.0.1:29500", for messages.
  [[nodiscard]] const std::string& peer() const { return peer_; }

  /// A clock cannot be set to the end of time: longer timeouts mean a year, negative ones none.
  static net::Deadline after(Timeout timeout);
  /// Until when the server's answers are waited for in a call that itself ends at `deadline`.
  static net::Deadline answer_by(net::Deadline deadline);

 private:
  StoreConnection(Fd socket, std::string peer)
      : socket_(std::move(socket)), peer_(std::move(peer)) {}
  Result<void> handshake(net::Deadline deadline);

  Fd socket_;
  std::string peer_;
};

}  // namespace ddprun
