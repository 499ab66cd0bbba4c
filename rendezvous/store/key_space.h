// KeySpace: the keys, queues and waiters of one attempt. Pure: requests come in one at a time, and
// whoever was woken by one is told to the caller, who sends the bytes. Semantics are those of
// PyTorch's libuv server where its versions differ (store protocol, section 5).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun {

enum class ConnectionId : std::uint64_t {};

class KeySpace {
 public:
  /// Connections whose wait has just ended; each is owed one STOP_WAITING.
  using Woken = std::vector<ConnectionId>;

  void set(std::string_view key, std::string_view value, Woken& woken);
  /// None when the key does not exist. Valid until the next change.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view key) const;
  /// Values are decimal text, read as strtoll does. None when there is text without a number in
  /// front: the value stays as it is. Overflow wraps.
  std::optional<std::int64_t> add(std::string_view key, std::int64_t delta, Woken& woken);
  /// The value after the operation; `expected` when the key is missing and expected is not empty.
  std::string compare_set(std::string_view key, std::string_view expected, std::string_view desired,
                          Woken& woken);
  void append(std::string_view key, std::string_view value, Woken& woken);
  /// True when there was such a key. Waiters are not disturbed.
  bool remove(std::string_view key);
  /// Every stored key; queues are not counted.
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] std::vector<std::string_view> keys() const;
  /// A key, or a queue with something in it.
  [[nodiscard]] bool exists(std::string_view key) const;

  void queue_push(std::string_view key, std::string_view value, Woken& woken);
  /// None when the queue is empty; never blocks.
  std::optional<std::string> queue_pop(std::string_view key);
  [[nodiscard]] std::size_t queue_size(std::string_view key) const;

  /// True: all keys are there, and nothing is remembered. False: the connection will be woken once
  /// each key has been created; to name one twice changes nothing. A wait before this one is
  /// forgotten.
  bool wait(ConnectionId connection, const std::vector<std::string_view>& keys);
  /// Forgets the connection's wait: CANCEL_WAIT, and the end of a connection.
  void cancel_wait(ConnectionId connection);
  [[nodiscard]] std::size_t waiting() const { return waits_.size(); }

  /// Counts the caller in; a wait it had is forgotten. True when world_size have come: all who wait
  /// on the key are woken, the caller not among them. False: the caller waits. None as in add().
  std::optional<bool> barrier(ConnectionId connection, std::string_view key,
                              std::int64_t world_size, Woken& woken);

 private:
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  template <class T>
  using Map = std::unordered_map<std::string, T, TextHash, std::equal_to<>>;
  using Ticket = std::uint64_t;  // one per wait, growing: the order of registration
  struct Wait {
    Ticket ticket = 0;
    std::vector<std::string> keys;  // all that were missing at first, each once
    std::size_t missing = 0;        // of these, so many still are
  };

  std::string& slot(std::string_view key);
  void created(std::string_view key, Woken& woken);
  void register_wait(ConnectionId connection, const std::vector<std::string_view>& missing);
  /// One key less; true when that ended the wait.
  bool count_down(ConnectionId connection);

  Map<std::string> values_;
  Map<std::deque<std::string>> queues_;
  Map<std::map<Ticket, ConnectionId>> waiters_;  // by key; never an empty inner map
  std::unordered_map<ConnectionId, Wait> waits_;
  Ticket next_ticket_ = 0;
};

}  // namespace ddprun
