#include "rendezvous/store/store_client.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "rendezvous/store/store_protocol.h"
#include "rendezvous/store/tcp_connect.h"

namespace ddprun {

using namespace store_protocol;
using Clock = std::chrono::steady_clock;

namespace {

/// A clock cannot be set to the end of time: longer timeouts mean a year, negative ones none.
Clock::time_point after(StoreClient::Timeout timeout) {
  using std::chrono::hours;
  return Clock::now() +
         std::clamp<StoreClient::Timeout>(timeout, StoreClient::Timeout(0), hours(24 * 365));
}

/// "key 'a' and 2 more", for messages.
std::string keys_text(const std::vector<std::string>& keys) {
  std::string text = keys.empty() ? "nothing" : "key '" + keys.front() + "'";
  if (keys.size() > 1) {
    text += " and " + std::to_string(keys.size() - 1) + " more";
  }
  return text;
}

std::string too_large(const char* what, std::size_t size, std::uint64_t max) {
  return std::string(what) + ": " + std::to_string(size) + ", where at most " +
         std::to_string(max) + " are allowed";
}

std::string seconds_text(Clock::duration time) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  std::string text = std::to_string(ms / 1000);
  if (ms % 1000 != 0 && ms < 10'000) {
    text += "." + std::to_string(ms % 1000 / 100);
  }
  return text + " s";
}

constexpr StoreClient::Timeout kPerAddress{5'000};

}  // namespace

Result<StoreClient> StoreClient::connect(const Endpoint& endpoint, Timeout timeout) {
  const auto begin = Clock::now();
  const auto deadline = after(timeout);
  std::string last = "no address";
  std::string address = to_text(endpoint);
  for (auto pause = std::chrono::milliseconds(5);;
       pause = std::min(pause * 2, std::chrono::milliseconds(500))) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int resolved =
        ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> list(found, [](addrinfo* info) {
      if (info != nullptr) {
        ::freeaddrinfo(info);
      }
    });
    if (resolved != 0) {
      last = std::string("the host name does not resolve (") + ::gai_strerror(resolved) + ")";
    }
    for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next) {
      Fd socket;
      // One address may swallow what is sent to it while the next would answer.
      const int error = try_connect(*info, std::min(deadline, after(kPerAddress)), socket);
      address = address_text(*info);
      if (error != 0) {
        last = std::strerror(error);
        continue;
      }
      StoreClient client(std::move(socket), address, timeout);
      if (const auto shaken = client.handshake(answer_by(deadline))) {
        return client;
      } else {
        last = shaken.error().what;
      }
    }
    const auto left = deadline - Clock::now();
    if (left <= Clock::duration::zero()) {
      break;
    }
    ::poll(nullptr, 0,
           static_cast<int>(std::min<long long>(
               pause.count(), std::chrono::ceil<std::chrono::milliseconds>(left).count())));
  }
  return Error{
      "cannot connect to the store: " + last + ", tried for " + seconds_text(Clock::now() - begin),
      to_text(endpoint) + (address == to_text(endpoint) ? "" : " (" + address + ")"),
      "check that the agent or process that hosts it runs and can be reached"};
}

Result<void> StoreClient::handshake(Clock::time_point deadline) {
  std::string request;
  put_u8(request, static_cast<std::uint8_t>(Operation::validate));
  put_u32(request, kMagic);
  const auto nonce = static_cast<std::uint32_t>(::getpid());
  put_u8(request, static_cast<std::uint8_t>(Operation::ping));
  put_u32(request, nonce);
  if (auto sent = send(request, deadline); !sent) {
    return sent;
  }
  std::uint32_t echo = 0;
  if (auto got = receive(reinterpret_cast<char*>(&echo), sizeof echo, deadline); !got) {
    return got;
  }
  if (echo != nonce) {
    return broken("what answers there is no TCPStore server");
  }
  return {};
}

StoreClient::Clock::time_point StoreClient::answer_by(Clock::time_point deadline) {
  return std::max(deadline, Clock::now() + kAnswerGrace);
}

StoreClient::Clock::time_point StoreClient::answer_deadline() const {
  return answer_by(after(timeout_));
}

std::string StoreClient::begin(Operation operation) {
  refusal_.clear();
  return std::string(1, static_cast<char>(operation));
}

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

Error StoreClient::broken(const std::string& what) {
  socket_.reset();
  return Error{what, "store " + peer_, {}};
}

Result<void> StoreClient::send(const std::string& request, Clock::time_point deadline) {
  timed_out_ = false;
  if (!socket_) {
    return broken("the connection is closed");
  }
  if (request.size() > kRequestBytesMax) {
    refusal_ = too_large("bytes in a request", request.size(), kRequestBytesMax);
  }
  if (!refusal_.empty()) {
    return Error{refusal_, "store " + peer_, {}};
  }
  for (std::size_t at = 0; at < request.size();) {
    const ssize_t sent =
        ::send(socket_.get(), request.data() + at, request.size() - at, MSG_NOSIGNAL);
    if (sent >= 0) {
      at += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      if (!wait_ready(socket_.get(), POLLOUT, deadline)) {
        return broken("the store does not read what it is sent");
      }
    } else if (errno != EINTR) {
      return broken(std::string("the connection broke: ") + std::strerror(errno));
    }
  }
  return {};
}

Result<void> StoreClient::receive(char* bytes, std::size_t size, Clock::time_point deadline) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::recv(socket_.get(), bytes + at, size - at, 0);
    if (got > 0) {
      at += static_cast<std::size_t>(got);
    } else if (got == 0) {
      return broken("the store closed the connection");
    } else if (errno == EAGAIN) {
      if (!wait_ready(socket_.get(), POLLIN, deadline)) {
        return broken("no answer from the store in time");
      }
    } else if (errno != EINTR) {
      return broken(std::string("the connection broke: ") + std::strerror(errno));
    }
  }
  return {};
}

Result<std::int64_t> StoreClient::receive_i64(Clock::time_point deadline) {
  std::int64_t value = 0;
  if (auto got = receive(reinterpret_cast<char*>(&value), sizeof value, deadline); !got) {
    return got.error();
  }
  return value;
}

Result<std::string> StoreClient::receive_bytes(Clock::time_point deadline) {
  const auto size = receive_i64(deadline);
  if (!size) {
    return size.error();
  }
  // APPEND can make a value longer than any one request may carry.
  if (*size < 0 || *size > static_cast<std::int64_t>(kRequestBytesMax)) {
    return broken("the store sent a length that no value has");
  }
  std::string bytes(static_cast<std::size_t>(*size), '\0');
  if (auto got = receive(bytes.data(), bytes.size(), deadline); !got) {
    return got.error();
  }
  return bytes;
}

Result<void> StoreClient::receive_stop(const std::string& what, Clock::time_point deadline,
                                       Timeout timeout) {
  if (!wait_ready(socket_.get(), POLLIN, deadline)) {
    return take_back(what, timeout);
  }
  char stop = kStopWaiting;
  if (auto got = receive(&stop, 1, answer_by(deadline)); !got) {
    return got;
  }
  if (stop != kStopWaiting) {
    return broken("the store's answer to a wait is not of its protocol");
  }
  return {};
}

/// CANCEL_WAIT is always answered. The wait may have ended at this very moment: then its 0 comes
/// before the 1, and it has succeeded after all.
Result<void> StoreClient::take_back(const std::string& what, Timeout timeout) {
  const auto limit = answer_by(Clock::now());
  if (auto sent = send(begin(Operation::cancel_wait), limit); !sent) {
    return sent;
  }
  char answer = kStopWaiting;
  if (auto got = receive(&answer, 1, limit); !got) {
    return got;
  }
  const bool ended = answer == kStopWaiting;
  if (ended) {
    if (auto got = receive(&answer, 1, limit); !got) {
      return got;
    }
  }
  if (answer != kWaitCanceled) {
    return broken("the store's answer to CANCEL_WAIT is not of its protocol");
  }
  if (ended) {
    return {};
  }
  timed_out_ = true;
  return Error{"waited " + seconds_text(timeout) + " for " + what, "store " + peer_, {}};
}

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
/// do: a server does not hold the GET back until the wait ends, and the empty value of a missing
/// key, followed by the end of the wait, cannot be told from the end of the wait and a value.)
Result<std::string> StoreClient::get(std::string_view key, Timeout timeout) {
  const auto deadline = after(timeout);
  auto value = get_now(key, answer_by(deadline));
  if (!value || !value->empty()) {
    return value;
  }
  if (auto there = wait_until({std::string(key)}, deadline, timeout); !there) {
    return there.error();
  }
  return get_now(key, answer_by(deadline));
}

Result<std::string> StoreClient::get_now(std::string_view key, Clock::time_point deadline) {
  std::string request = begin(Operation::get);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  return receive_bytes(deadline);
}

Result<std::int64_t> StoreClient::add(std::string_view key, std::int64_t delta) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::add);
  put_key(request, key);
  put_i64(request, delta);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  return receive_i64(deadline);
}

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
  return receive_bytes(deadline);
}

Result<bool> StoreClient::check(const std::vector<std::string>& keys) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::check);
  put_keys(request, keys);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  char answer = kNotReady;
  if (auto got = receive(&answer, 1, deadline); !got) {
    return got.error();
  }
  return answer == kReady;
}

Result<void> StoreClient::wait(const std::vector<std::string>& keys, Timeout timeout) {
  return wait_until(keys, after(timeout), timeout);
}

Result<void> StoreClient::wait_until(const std::vector<std::string>& keys,
                                     Clock::time_point deadline, Timeout timeout) {
  std::string request = begin(Operation::wait);
  put_keys(request, keys);
  if (auto sent = send(request, answer_by(deadline)); !sent) {
    return sent;
  }
  return receive_stop(keys_text(keys), deadline, timeout);
}

Result<std::int64_t> StoreClient::num_keys() {
  const auto deadline = answer_deadline();
  if (auto sent = send(begin(Operation::num_keys), deadline); !sent) {
    return sent.error();
  }
  return receive_i64(deadline);
}

Result<bool> StoreClient::delete_key(std::string_view key) {
  const auto deadline = answer_deadline();
  std::string request = begin(Operation::delete_key);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  const auto existed = receive_i64(deadline);
  if (!existed) {
    return existed.error();
  }
  return *existed == 1;
}

Result<void> StoreClient::append(std::string_view key, std::string_view value) {
  std::string request = begin(Operation::append);
  put_key(request, key);
  put_value(request, value);
  return send(request, answer_deadline());
}

/// As get(): the values first, and the wait only if one may be missing.
Result<std::vector<std::string>> StoreClient::multi_get(const std::vector<std::string>& keys) {
  const auto deadline = after(timeout_);
  auto values = multi_get_now(keys, answer_by(deadline));
  const auto is_empty = [](const std::string& value) { return value.empty(); };
  if (!values || std::none_of(values->begin(), values->end(), is_empty)) {
    return values;
  }
  if (auto there = wait_until(keys, deadline, timeout_); !there) {
    return there.error();
  }
  return multi_get_now(keys, answer_by(deadline));
}

Result<std::vector<std::string>> StoreClient::multi_get_now(const std::vector<std::string>& keys,
                                                            Clock::time_point deadline) {
  std::string request = begin(Operation::multi_get);
  put_keys(request, keys);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  std::vector<std::string> values;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto value = receive_bytes(deadline);
    if (!value) {
      return value.error();
    }
    values.push_back(std::move(*value));
  }
  return values;
}

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
  const auto deadline = after(timeout_);
  for (;;) {
    auto popped = pop_now(key, answer_by(deadline));
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

Result<std::optional<std::string>> StoreClient::queue_try_pop(std::string_view key) {
  return pop_now(key, answer_deadline());
}

Result<std::optional<std::string>> StoreClient::pop_now(std::string_view key,
                                                        Clock::time_point deadline) {
  std::string request = begin(Operation::queue_pop);
  put_key(request, key);
  if (auto sent = send(request, deadline); !sent) {
    return sent.error();
  }
  const auto length = receive_i64(deadline);
  if (!length) {
    return length.error();
  }
  if (*length <= 0) {
    return std::optional<std::string>();
  }
  auto front = receive_bytes(deadline);
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
  return receive_i64(deadline);
}

Result<std::vector<std::string>> StoreClient::list_keys() {
  const auto deadline = answer_deadline();
  if (auto sent = send(begin(Operation::list_keys), deadline); !sent) {
    return sent.error();
  }
  const auto count = receive_i64(deadline);
  if (!count) {
    return count.error();
  }
  std::vector<std::string> keys;
  for (std::int64_t i = 0; i < *count; ++i) {
    auto key = receive_bytes(deadline);
    if (!key) {
      return key.error();
    }
    if (raw_keys_) {
      keys.push_back(std::move(*key));
    } else if (key->starts_with('/')) {
      keys.push_back(key->substr(1));
    }
  }
  return keys;
}

Result<void> StoreClient::barrier(std::string_view key, std::int64_t world_size, Timeout timeout) {
  std::string request = begin(Operation::barrier);
  put_key(request, key);
  put_i64(request, world_size);
  const auto deadline = after(timeout);
  if (auto sent = send(request, answer_by(deadline)); !sent) {
    return sent;
  }
  return receive_stop(std::to_string(world_size) + " callers of barrier '" + std::string(key) + "'",
                      deadline, timeout);
}

}  // namespace ddprun
