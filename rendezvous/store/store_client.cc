#include "rendezvous/store/store_client.h"

#include <fmt/core.h>

#include <algorithm>

#include "rendezvous/base/text.h"
#include "rendezvous/store/store_protocol.h"

namespace ddprun {

using namespace store_protocol;

namespace {

/// "key 'a' and 2 more", for messages: a wait may name thousands.
std::string keys_text(const std::vector<std::string>& keys) {
  std::string text = keys.empty() ? "nothing" : "key '" + keys.front() + "'";
  if (keys.size() > 1) {
    text += fmt::format(" and {} more", keys.size() - 1);
  }
  return text;
}

std::string too_large(const char* what, std::size_t size, std::uint64_t max) {
  return fmt::format("{}: {}, where at most {} are allowed", what, size, max);
}

}  // namespace

Result<StoreClient> StoreClient::connect(const Endpoint& endpoint, Timeout timeout) {
  auto connection = StoreConnection::open(endpoint, timeout);
  if (!connection) {
    return connection.error();
  }
  return StoreClient(std::move(*connection), timeout);
}

/// For calls that depend on nobody else: the server answers at once, so only a server or a network
/// that stands still uses it up.
net::Deadline StoreClient::answer_deadline() const {
  return StoreConnection::answer_by(StoreConnection::after(timeout_));
}

/// Forgets why the request before was refused, for a refusal concerns one request.
std::string StoreClient::begin(Operation operation) {
  refusal_.clear();
  return std::string(1, static_cast<char>(operation));
}

/// Limits are checked here, though the server checks them, too. Its one answer to a request beyond
/// them is a closed connection, which would end this client for one wrong key.
void StoreClient::put_key(std::string& request, std::string_view key) {
  const std::size_t size = key.size() + (raw_keys_ ? 0 : 1);
  if (size > kKeyBytesMax) {
    refusal_ = too_large("bytes in a key", size, kKeyBytesMax);
    return;
  }
  put_i64(request, static_cast<std::int64_t>(size));
  if (!raw_keys_) {
    request.push_back('/');
  }
  request += key;
}

/// An empty value is a value, though GET answers it like a missing key: a wait shows which it is.
void StoreClient::put_value(std::string& request, std::string_view value) {
  if (value.size() > kValueBytesMax) {
    refusal_ = too_large("bytes in a value", value.size(), kValueBytesMax);
    return;
  }
  put_bytes(request, value);
}

void StoreClient::put_keys(std::string& request, const std::vector<std::string>& keys) {
  if (keys.size() > kKeysMax) {
    refusal_ = too_large("keys in a request", keys.size(), kKeysMax);
    return;
  }
  put_i64(request, static_cast<std::int64_t>(keys.size()));
  for (const auto& key : keys) {
    put_key(request, key);
  }
}

/// A request that may not be sent leaves the connection whole: nothing of it went out.
Result<void> StoreClient::send(const std::string& request, net::Deadline deadline) {
  timed_out_ = false;
  if (request.size() > kRequestBytesMax) {
    refusal_ = too_large("bytes in a request", request.size(), kRequestBytesMax);
  }
  if (connection_.is_open() && !refusal_.empty()) {
    return Error{refusal_, "store " + peer(), {}};
  }
  return connection_.send(request, deadline);
}

/// At the deadline the wait is taken back. Left at the server, it would send its byte later, and
/// this client would read that as the answer to another request.
Result<void> StoreClient::receive_stop(const std::string& what, net::Deadline deadline,
                                       Timeout timeout) {
  if (!connection_.wait_for_bytes(deadline)) {
    return take_back(what, timeout);
  }
  char stop = kStopWaiting;
  if (auto got = connection_.receive(&stop, 1, StoreConnection::answer_by(deadline)); !got) {
    return got;
  }
  if (stop != kStopWaiting) {
    return connection_.broken("the store's answer to a wait is not of its protocol");
  }
  return {};
}

/// CANCEL_WAIT is always answered. The wait may have ended at this very moment: then its 0 comes
/// before the 1, and it has succeeded after all.
Result<void> StoreClient::take_back(const std::string& what, Timeout timeout) {
  const auto limit = StoreConnection::answer_by(std::chrono::steady_clock::now());
  if (auto sent = send(begin(Operation::cancel_wait), limit); !sent) {
    return sent;
  }
  char answer = kStopWaiting;
  if (auto got = connection_.receive(&answer, 1, limit); !got) {
    return got;
  }
  const bool ended = answer == kStopWaiting;
  if (ended) {
    if (auto got = connection_.receive(&answer, 1, limit); !got) {
      return got;
    }
  }
  if (answer != kWaitCanceled) {
    return connection_.broken("the store's answer to CANCEL_WAIT is not of its protocol");
  }
  if (ended) {
    return {};
  }
  timed_out_ = true;
  return Error{"waited " + seconds_text(timeout) + " for " + what, "store " + peer(), {}};
}

/// SET has no answer: that it arrived shows in the next call that has one.
Result<void> StoreClient::set(std::string_view key, std::string_view value) {
  std::string request = begin(Operation::set);
  put_key(request, key);
  put_value(request, value);
  return send(request, answer_deadline());
}

Result<std::string> StoreClient::get(std::string_view key) {
  return get(key, timeout_);
}

/// GET first: the server answers at once, a missing key with an empty value. Only then is WAIT
/// needed, the round trip that PyTorch's client makes always. (WAIT and GET in one write would not
/// do. A server does not hold the GET back until the wait ends. Then the empty value of a missing
/// key, followed by the end of the wait, looks like the end of the wait and a value.)
Result<std::string> StoreClient::get(std::string_view key, Timeout timeout) {
  const auto deadline = StoreConnection::after(timeout);
  auto value = get_now(key, StoreConnection::answer_by(deadline));
  if (!value || !value->empty()) {
    return value;
  }
  if (auto there = wait_until({std::string(key)}, deadline, timeout); !there) {
    return there.error();
  }
  return get_now(key, StoreConnection::answer_by(deadline));
}

/// An empty answer is an empty value or a missing key; the caller finds out by a wait.
Result<std::string> StoreClient::get_now(std::string_view key, net::Deadline deadline) {
  std::string request = begin(Operation::get);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  return connection_.receive_bytes(deadline);
}

/// Atomic at the server, which executes one request at a time: ranks count each other by it.
Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::add);
  put_key(request, key);
  put_i64(request, delta);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  return connection_.receive_i64(deadline);
}

/// The answer is the value after it; the caller compares that with `desired`. A missing key answers
/// what was expected (KeySpace::compare_set).
Result<std::string> StoreClient::compare_set(std::string_view key, std::string_view expected,
                                             std::string_view desired) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::compare_set);
  put_key(request, key);
  put_value(request, expected);
  put_value(request, desired);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  return connection_.receive_bytes(deadline);
}

/// Does not wait. One byte for any number of keys: it is 0 only if all of them are there.
Result<bool> StoreClient::check(const std::vector<std::string>& keys) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::check);
  put_keys(request, keys);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  char answer = kNotReady;
  if (auto got = connection_.receive(&answer, 1, deadline); !got) {
    return got.error();
  }
  return answer == kReady;
}

Result<void> StoreClient::wait(const std::vector<std::string>& keys, Timeout timeout) {
  return wait_until(keys, StoreConnection::after(timeout), timeout);
}

/// One WAIT for all keys: the server answers when the last of them is there, however many there
/// are.
Result<void> StoreClient::wait_until(const std::vector<std::string>& keys, net::Deadline deadline,
                                     Timeout timeout) {
  std::string request = begin(Operation::wait);
  put_keys(request, keys);
  if (auto sent = send(request, StoreConnection::answer_by(deadline)); !sent) {
    return sent;
  }
  return receive_stop(keys_text(keys), deadline, timeout);
}

/// All keys of all clients, the counters of barriers among them.
Result<std::int64_t> StoreClient::num_keys() {
  const auto deadline = answer_deadline();
  if (auto sent = send(begin(Operation::num_keys), deadline); !sent) {
    return sent.error();
  }
  return connection_.receive_i64(deadline);
}

/// True if there was such a key. A wait that has counted it is not undone (KeySpace::remove).
Result<bool> StoreClient::delete_key(std::string_view key) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::delete_key);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  const auto existed = connection_.receive_i64(deadline);
  if (!existed) {
    return existed.error();
  }
  return *existed == 1;
}

/// No answer, as for SET.
Result<void> StoreClient::append(std::string_view key, std::string_view value) {
  std::string request = begin(Operation::append);
  put_key(request, key);
  put_value(request, value);
  return send(request, answer_deadline());
}

/// As get(): the values first, and the wait only if one may be missing.
Result<std::vector<std::string>> StoreClient::multi_get(const std::vector<std::string>& keys) {
  const auto deadline = StoreConnection::after(timeout_);
  auto values = multi_get_now(keys, StoreConnection::answer_by(deadline));
  const auto is_empty = [](const std::string& value) { return value.empty(); };
  if (!values || std::none_of(values->begin(), values->end(), is_empty)) {
    return values;
  }
  if (auto there = wait_until(keys, deadline, timeout_); !there) {
    return there.error();
  }
  return multi_get_now(keys, StoreConnection::answer_by(deadline));
}

/// One length and value per key, in the order of the keys. A value that fails leaves the connection
/// closed, so the rest is never read as something else.
Result<std::vector<std::string>> StoreClient::multi_get_now(const std::vector<std::string>& keys,
                                                            net::Deadline deadline) {
  std::string request = begin(Operation::multi_get);
  put_keys(request, keys);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  std::vector<std::string> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto value = connection_.receive_bytes(deadline);
    if (!value) {
      return value.error();
    }
    values.push_back(std::move(*value));
  }
  return values;
}

/// All or nothing: the server executes it once all of it has come, and nobody sees half of it.
Result<void> StoreClient::multi_set(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string request = begin(Operation::multi_set);
  if (pairs.size() > kKeysMax) {
    refusal_ = too_large("keys in a request", pairs.size(), kKeysMax);
  }
  put_i64(request, static_cast<std::int64_t>(pairs.size()));
  for (const auto& [key, value] : pairs) {
    put_key(request, key);
    put_value(request, value);
  }
  return send(request, answer_deadline());
}

Result<void> StoreClient::queue_push(std::string_view key, std::string_view value) {
  std::string request = begin(Operation::queue_push);
  put_key(request, key);
  put_value(request, value);
  return send(request, answer_deadline());
}

/// Another client may take the element between our wait and our pop: then wait again.
Result<std::string> StoreClient::queue_pop(std::string_view key) {
  const auto deadline = StoreConnection::after(timeout_);
  for (;;) {
    auto popped = pop_now(key, StoreConnection::answer_by(deadline));
    if (!popped) {
      return popped.error();
    }
    if (*popped) {
      return std::move(**popped);
    }
    if (auto there = wait_until({std::string(key)}, deadline, timeout_); !there) {
      return there.error();
    }
  }
}

/// An empty queue is an answer here, not an error, and takes one round trip.
Result<std::optional<std::string>> StoreClient::queue_try_pop(std::string_view key) {
  return pop_now(key, answer_deadline());
}

Result<std::optional<std::string>> StoreClient::pop_now(std::string_view key,
                                                        net::Deadline deadline) {
  std::string request = begin(Operation::queue_pop);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  const auto length = connection_.receive_i64(deadline);
  if (!length) {
    return length.error();
  }
  // The length of the queue before the pop: an element follows only if there was one.
  if (*length <= 0) {
    return std::optional<std::string>();
  }
  auto front = connection_.receive_bytes(deadline);
  if (!front) {
    return front.error();
  }
  return std::optional<std::string>(std::move(*front));
}

Result<std::int64_t> StoreClient::queue_len(std::string_view key) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::queue_len);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  return connection_.receive_i64(deadline);
}

/// PyTorch's own server sends any number of keys, so the count has no limit here. Each key is read
/// with the deadline of the call.
Result<std::vector<std::string>> StoreClient::list_keys() {
  const auto deadline = answer_deadline();
  if (auto sent = send(begin(Operation::list_keys), deadline); !sent) {
    return sent.error();
  }
  const auto count = connection_.receive_i64(deadline);
  if (!count) {
    return count.error();
  }
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < *count; ++i) {
    auto key = connection_.receive_bytes(deadline);
    if (!key) {
      return key.error();
    }
    // Two kinds of clients may share a store. Keys without the slash belong to clients that send
    // them raw.
    if (raw_keys_) {
      keys.push_back(std::move(*key));
    } else if (key->starts_with('/')) {
      keys.push_back(key->substr(1));
    }
  }
  return keys;
}

/// A barrier that timed out has counted this caller all the same. Its key is of no use any more,
/// for the server's counter never goes back.
Result<void> StoreClient::barrier(std::string_view key, std::int64_t world_size, Timeout timeout) {
  std::string request = begin(Operation::barrier);
  put_key(request, key);
  put_i64(request, world_size);
  const auto deadline = StoreConnection::after(timeout);
  if (auto sent = send(request, StoreConnection::answer_by(deadline)); !sent) {
    return sent;
  }
  return receive_stop(fmt::format("{} callers of barrier '{}'", world_size, key), deadline,
                      timeout);
}

}  // namespace ddprun
