// StoreClient: a blocking client of a TCPStore server (ours, or PyTorch's own libuv server, 2.5 and
// later), with a deadline on every call. For the worker runtime; one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"
#include "rendezvous/store/store_connection.h"
#include "rendezvous/store/store_protocol.h"

namespace ddprun {

/// Move-only. A timeout bounds how long a call waits for what others must do first; 0 means: only
/// what is there now. The server's own answers are waited for until then too, but at least
/// kAnswerGrace, by which a call may outlive its timeout when the server has fallen silent.
///
/// A wait that timed out leaves the client usable, and so does a key or value beyond the protocol's
/// limits, which is refused before anything is sent. After any other failure the client is closed:
/// every later call fails at once.
class StoreClient {
 public:
  using Timeout = std::chrono::milliseconds;
  /// PyTorch's own default for its stores.
  static constexpr Timeout kDefaultTimeout{300'000};
  static constexpr Timeout kAnswerGrace = StoreConnection::kAnswerGrace;

  /// Connects, retrying while nobody listens yet, and shakes hands. The Error names host, address,
  /// port, and how long was tried. `timeout` also becomes the default of all calls.
  static Result<StoreClient> connect(const Endpoint& endpoint, Timeout timeout = kDefaultTimeout);

  /// PyTorch's client puts '/' in front of each user key, and so does this one, so that both see
  /// the same keys. Off: keys are sent as they are.
  void set_raw_keys(bool raw) { raw_keys_ = raw; }
  void set_timeout(Timeout timeout) { timeout_ = timeout; }
  [[nodiscard]] Timeout timeout() const { return timeout_; }

  Result<void> set(std::string_view key, std::string_view value);
  /// Waits until the key exists, then gets it. One round trip when it does and is not empty.
  Result<std::string> get(std::string_view key);
  Result<std::string> get(std::string_view key, Timeout timeout);
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired);
  Result<bool> check(const std::vector<std::string>& keys);
  /// Until all keys exist. On a timeout the wait is taken back: the client stays usable.
  Result<void> wait(const std::vector<std::string>& keys, Timeout timeout);
  Result<std::int64_t> num_keys();
  Result<bool> delete_key(std::string_view key);
  Result<void> append(std::string_view key, std::string_view value);
  /// Waits until all keys exist, then gets them.
  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys);
  Result<void> multi_set(const std::vector<std::pair<std::string, std::string>>& pairs);
  Result<void> queue_push(std::string_view key, std::string_view value);
  /// Waits until there is an element, then takes it.
  Result<std::string> queue_pop(std::string_view key);
  /// Does not wait: none when the queue is empty.
  Result<std::optional<std::string>> queue_try_pop(std::string_view key);
  Result<std::int64_t> queue_len(std::string_view key);
  /// User keys (those with the '/' in front, without it); raw: all.
  Result<std::vector<std::string>> list_keys();
  /// Until `world_size` callers have come to this key. A key serves one barrier.
  Result<void> barrier(std::string_view key, std::int64_t world_size, Timeout timeout);

  /// True when a wait of the last call ran into its timeout (and the client is still usable).
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  /// "127.0.0.1:29500", for messages.
  [[nodiscard]] const std::string& peer() const { return connection_.peer(); }

 private:
  StoreClient(StoreConnection connection, Timeout timeout)
      : connection_(std::move(connection)), timeout_(timeout) {}

  std::string begin(store_protocol::Operation operation);
  void put_key(std::string& request, std::string_view key);
  void put_value(std::string& request, std::string_view value);
  void put_keys(std::string& request, const std::vector<std::string>& keys);
  Result<void> send(const std::string& request, net::Deadline deadline);
  Result<std::string> get_now(std::string_view key, net::Deadline deadline);
  Result<std::vector<std::string>> multi_get_now(const std::vector<std::string>& keys,
                                                 net::Deadline deadline);
  Result<std::optional<std::string>> pop_now(std::string_view key, net::Deadline deadline);
  Result<void> wait_until(const std::vector<std::string>& keys, net::Deadline deadline,
                          Timeout timeout);
  /// The byte that ends a WAIT or BARRIER; at the deadline takes the wait back.
  Result<void> receive_stop(const std::string& what, net::Deadline deadline, Timeout timeout);
  Result<void> take_back(const std::string& what, Timeout timeout);
  /// Until when an answer is waited for in a call that waits for nothing else.
  [[nodiscard]] net::Deadline answer_deadline() const;

  StoreConnection connection_;
  Timeout timeout_;
  bool raw_keys_ = false;
  bool timed_out_ = false;
  std::string refusal_;  // why the request that is being put together may not be sent
};

}  // namespace ddprun
