#include "rendezvous/store/store_session.h"

#include <algorithm>
#include <span>

#include "rendezvous/base/check.h"

namespace ddprun {

using store_protocol::Operation;
using store_protocol::Request;
using store_protocol::RequestParser;

namespace {

constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);

/// The keys' values; a missing key is an empty one. False, and nothing put, when that would be too
/// much for one reply. The sizes are added first: a MULTI_GET that names one large value 131,072
/// times is a small request, and its reply a terabyte.
bool put_all(const KeySpace& keys, std::span<const std::string_view> names, std::string& reply) {
  std::size_t size = 0;
  for (const auto name : names) {
    size += kLengthBytes + keys.get(name).value_or(std::string_view()).size();
    if (size > StoreSession::kReplyBytesMax) {
      return false;
    }
  }
  for (const auto name : names) {
    store_protocol::put_bytes(reply, keys.get(name).value_or(std::string_view()));
  }
  return true;
}

}  // namespace

/// The server reads only while nothing is paused, so the kernel's buffers fill, and TCP slows down
/// a client that does not take its replies.
bool StoreSession::receive(std::string_view bytes, std::string& reply, KeySpace::Woken& woken) {
  DDP_CHECK(!paused_, "a paused connection is not read from");
  parser_.feed(bytes);
  return resume(reply, woken);
}

/// Executes what has come, in order, until the reply is large enough. A request runs whole or not
/// at all: there is one thread, and nothing comes between two steps of it.
bool StoreSession::resume(std::string& reply, KeySpace::Woken& woken) {
  Request request;
  for (;;) {
    paused_ = reply.size() >= kReplyBacklogMax;
    if (paused_) {
      return true;
    }
    switch (parser_.next(request)) {
      case RequestParser::Status::need_more:
        return true;
      case RequestParser::Status::malformed:
        return false;
      case RequestParser::Status::request:
        if (!execute(request, reply, woken)) {
          return false;
        }
    }
  }
}

/// False ends the connection, which is the protocol's one answer to a bad request. SET, APPEND,
/// MULTI_SET and QUEUE_PUSH have no reply: clients do not read one.
bool StoreSession::execute(const Request& request, std::string& reply, KeySpace::Woken& woken) {
  using namespace store_protocol;
  switch (request.operation) {
    case Operation::set:
      keys_.set(request.key, request.value, woken);
      return true;
    case Operation::compare_set:
      put_bytes(reply, keys_.compare_set(request.key, request.value, request.desired, woken));
      return true;
    case Operation::get:
      // A missing key is an empty value, as in PyTorch's libuv server: clients wait before.
      return put_all(keys_, std::span(&request.key, 1), reply);
    case Operation::add: {
      // Text without a number: PyTorch's server ends the connection, too.
      const auto value = keys_.add(request.key, request.number, woken);
      if (value) {
        put_i64(reply, *value);
      }
      return value.has_value();
    }
    case Operation::num_keys:
      put_i64(reply, static_cast<std::int64_t>(keys_.size()));
      return true;
    case Operation::delete_key:
      put_i64(reply, keys_.remove(request.key) ? 1 : 0);
      return true;
    case Operation::append:
      keys_.append(request.key, request.value, woken);
      return true;
    case Operation::cancel_wait:
      // Answered also without a wait: it may have ended while this request was on its way.
      keys_.cancel_wait(id_);
      put_u8(reply, kWaitCanceled);
      return true;
    case Operation::ping:
      put_u32(reply, static_cast<std::uint32_t>(request.number));
      return true;
    case Operation::queue_push:
      keys_.queue_push(request.key, request.value, woken);
      return true;
    case Operation::queue_pop: {
      // The size before the pop: 0 means that no element follows.
      put_i64(reply, static_cast<std::int64_t>(keys_.queue_size(request.key)));
      if (const auto front = keys_.queue_pop(request.key)) {
        put_bytes(reply, *front);
      }
      return true;
    }
    case Operation::queue_len:
      put_i64(reply, static_cast<std::int64_t>(keys_.queue_size(request.key)));
      return true;
    case Operation::barrier: {
      const auto complete = keys_.barrier(id_, request.key, request.number, woken);
      // The last caller is not among the woken: its byte comes here, in the order of its replies.
      if (complete && *complete) {
        put_u8(reply, kStopWaiting);
      }
      return complete.has_value();
    }
    case Operation::check:
    case Operation::wait:
    case Operation::multi_get:
    case Operation::multi_set:
    case Operation::list_keys:
      return execute_on_many(request, reply, woken);
    case Operation::validate:  // the parser takes the one that opens a connection
      return false;
  }
  return false;
}

/// The operations on lists. A MULTI_SET wakes a waiter once its last key is there, in the middle of
/// the request. The server sends the byte only after all of it.
bool StoreSession::execute_on_many(const Request& request, std::string& reply,
                                   KeySpace::Woken& woken) {
  using namespace store_protocol;
  switch (request.operation) {
    case Operation::check: {
      const bool ready = std::all_of(request.keys.begin(), request.keys.end(),
                                     [this](std::string_view key) { return keys_.exists(key); });
      put_u8(reply, ready ? kReady : kNotReady);
      return true;
    }
    case Operation::wait:
      if (keys_.wait(id_, request.keys)) {
        put_u8(reply, kStopWaiting);
      }
      return true;
    case Operation::multi_get:
      return put_all(keys_, request.keys, reply);
    case Operation::multi_set:
      for (std::size_t i = 0; i < request.keys.size(); ++i) {
        keys_.set(request.keys[i], request.values[i], woken);
      }
      return true;
    default: {  // list_keys
      const auto names = keys_.keys();
      std::size_t size = kLengthBytes;
      for (const auto name : names) {
        size += kLengthBytes + name.size();
      }
      if (size > kReplyBytesMax) {
        return false;
      }
      put_i64(reply, static_cast<std::int64_t>(names.size()));
      for (const auto name : names) {
        put_bytes(reply, name);
      }
      return true;
    }
  }
}

}  // namespace ddprun
