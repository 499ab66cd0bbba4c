#include "rendezvous/store/key_space.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// As C's strtoll: leading blanks and trailing junk are tolerated, no digits are not.
std::optional<std::int64_t> parse_number(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str()) {
    return std::nullopt;
  }
  return value;
}

/// As PyTorch's server counts. Clients choose both numbers, and a signed sum may not overflow.
std::int64_t wrapping_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

/// Looks the view up as it is: only a new key costs a string of its own.
std::string& KeySpace::slot(std::string_view key) {
  const auto found = values_.find(key);
  return found != values_.end() ? found->second : values_[std::string(key)];
}

void KeySpace::set(std::string_view key, std::string_view value, Woken& woken) {
  slot(key) = value;
  created(key, woken);
}

std::optional<std::string_view> KeySpace::get(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return std::nullopt;
  }
  return found->second;
}

/// A missing key counts from 0. That creates it, so the first step of a counter wakes its waiters,
/// and later steps wake nobody.
std::optional<std::int64_t> KeySpace::add(std::string_view key, std::int64_t delta, Woken& woken) {
  std::int64_t value = delta;
  if (const auto found = values_.find(key); found != values_.end()) {
    const auto old = parse_number(found->second);
    if (!old) {
      return std::nullopt;
    }
    value = wrapping_add(*old, delta);
    found->second = std::to_string(value);
  } else {
    values_[std::string(key)] = std::to_string(value);
  }
  created(key, woken);
  return value;
}

std::string KeySpace::compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired, Woken& woken) {
  const auto found = values_.find(key);
  // PyTorch's rules: a missing key is set only when nothing was expected of it. Else the answer is
  // what the caller expected.
  if (found == values_.end() && !expected.empty()) {
    return std::string(expected);
  }
  if (found != values_.end() && found->second != expected) {
    return found->second;
  }
  set(key, desired, woken);
  return std::string(desired);
}

/// May make a value longer than any one request carries. The reply limits (StoreSession) bound what
/// of it is sent.
void KeySpace::append(std::string_view key, std::string_view value, Woken& woken) {
  slot(key) += value;
  created(key, woken);
}

/// A wait that has counted this key already is not taken back. It saw the key, and may depend on
/// others that are still to come.
bool KeySpace::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) {
    return false;
  }
  values_.erase(found);
  return true;
}

/// In no order, as from PyTorch's server.
std::vector<std::string_view> KeySpace::keys() const {
  std::vector<std::string_view> names;
  names.reserve(values_.size());
  for (const auto& [key, value] : values_) {
    names.push_back(key);
  }
  return names;
}

/// For WAIT and CHECK a queue is a key that exists while it has elements.
bool KeySpace::exists(std::string_view key) const {
  return values_.find(key) != values_.end() || queue_size(key) > 0;
}

/// A queue is no value: GET does not see it, but WAIT and CHECK take a queue with elements for a
/// key that exists.
void KeySpace::queue_push(std::string_view key, std::string_view value, Woken& woken) {
  queues_[std::string(key)].emplace_back(value);
  // One element can serve one waiter: the one that has waited longest.
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) {
    return;
  }
  DDP_CHECK(!found->second.empty(), "a key that nobody waits for has no waiters");
  const ConnectionId first = found->second.begin()->second;
  found->second.erase(found->second.begin());
  if (found->second.empty()) {
    waiters_.erase(found);
  }
  if (count_down(first)) {
    woken.push_back(first);
  }
}

std::optional<std::string> KeySpace::queue_pop(std::string_view key) {
  const auto found = queues_.find(key);
  if (found == queues_.end()) {
    return std::nullopt;
  }
  DDP_CHECK(!found->second.empty(), "a queue that is empty is forgotten");
  std::string front = std::move(found->second.front());
  found->second.pop_front();
  // Forgotten with its last element, or a job that names a queue per step would keep them all.
  if (found->second.empty()) {
    queues_.erase(found);
  }
  return front;
}

std::size_t KeySpace::queue_size(std::string_view key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : found->second.size();
}

/// A connection has one wait: its client reads the answer before it sends the next request, or has
/// given the first wait up.
bool KeySpace::wait(ConnectionId connection, const std::vector<std::string_view>& keys) {
  cancel_wait(connection);
  std::vector<std::string_view> missing;
  for (const auto key : keys) {
    if (!exists(key)) {
      missing.push_back(key);
    }
  }
  if (missing.empty()) {
    return true;
  }
  DDP_CHECK(missing.size() <= keys.size(), "no more is missing than was named");
  register_wait(connection, missing);
  return false;
}

/// The wait is listed under each of its keys, so that a creation costs as much as it has waiters,
/// not as there are waits.
void KeySpace::register_wait(ConnectionId connection,
                             const std::vector<std::string_view>& missing) {
  DDP_CHECK(!missing.empty(), "nobody waits for nothing");
  DDP_CHECK(!waits_.contains(connection), "one wait per connection");
  Wait wait;
  wait.ticket = next_ticket_++;
  for (const auto key : missing) {
    auto found = waiters_.find(key);
    if (found == waiters_.end()) {
      found = waiters_.try_emplace(std::string(key)).first;
    }
    // A key named twice has this ticket already. It is created once, and a queue's element wakes
    // one waiter once: counted twice, the wait would never end.
    if (found->second.emplace(wait.ticket, connection).second) {
      wait.keys.emplace_back(key);
    }
  }
  wait.missing = wait.keys.size();
  DDP_CHECK(wait.missing > 0, "a wait for keys waits for one at least");
  waits_.emplace(connection, std::move(wait));
}

/// Also at the end of each connection. A ticket that stayed would take the wake-up of a queue's
/// element from a client that still waits.
void KeySpace::cancel_wait(ConnectionId connection) {
  const auto found = waits_.find(connection);
  if (found == waits_.end()) {
    return;
  }
  DDP_CHECK(found->second.missing <= found->second.keys.size(), "a wait misses what it named");
  for (const auto& key : found->second.keys) {
    if (const auto waiters = waiters_.find(key); waiters != waiters_.end()) {
      DDP_CHECK(!waiters->second.empty(), "a key that nobody waits for has no waiters");
      waiters->second.erase(found->second.ticket);
      if (waiters->second.empty()) {
        waiters_.erase(waiters);
      }
    }
  }
  waits_.erase(found);
}

std::optional<bool> KeySpace::barrier(ConnectionId connection, std::string_view key,
                                      std::int64_t world_size, Woken& woken) {
  // Not through add(): that would count as the key's creation and wake those that came earlier.
  const auto found = values_.find(key);
  std::int64_t count = 1;
  if (found != values_.end()) {
    const auto old = parse_number(found->second);
    if (!old) {
      return std::nullopt;
    }
    count = wrapping_add(*old, 1);
  }
  slot(key) = std::to_string(count);
  cancel_wait(connection);
  if (count >= world_size) {
    created(key, woken);
    return true;
  }
  register_wait(connection, {key});
  return false;
}

/// Wakes in the order of registration, so that no waiter overtakes another.
void KeySpace::created(std::string_view key, Woken& woken) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) {
    return;
  }
  const auto all = std::move(found->second);
  DDP_CHECK(!all.empty(), "a key that nobody waits for has no waiters");
  waiters_.erase(found);
  for (const auto& [ticket, connection] : all) {
    if (count_down(connection)) {
      woken.push_back(connection);
    }
  }
}

bool KeySpace::count_down(ConnectionId connection) {
  const auto found = waits_.find(connection);
  DDP_CHECK(found != waits_.end(), "a registered waiter has a wait");
  DDP_CHECK(found->second.missing > 0, "a wait ends once");
  if (--found->second.missing > 0) {
    return false;
  }
  waits_.erase(found);
  return true;
}

}  // namespace ddprun
