// StoreSession: one connection's dialogue with a key space: bytes in, bytes out. Pure.
#pragma once

#include <string>
#include <string_view>

#include "rendezvous/store/key_space.h"
#include "rendezvous/store/store_protocol.h"

namespace ddprun {

class StoreSession {
 public:
  /// `keys` outlives the session. The id is the connection's, unique within the key space.
  StoreSession(KeySpace& keys, ConnectionId id) : keys_(keys), id_(id) {}
  ~StoreSession() { keys_.cancel_wait(id_); }
  StoreSession(const StoreSession&) = delete;
  StoreSession& operator=(const StoreSession&) = delete;

  /// A reply beyond this is not built: a MULTI_GET of large values could be a terabyte.
  static constexpr std::size_t kReplyBytesMax = 256 * 1024 * 1024;

  /// Once `reply` has this much in it, no further request is executed until it has been sent. What
  /// the server holds for a slow reader is therefore at most this and one reply.
  static constexpr std::size_t kReplyBacklogMax = 1024 * 1024;

  /// Takes bytes as they come, in any pieces; executes every complete request in order. Replies
  /// are appended to `reply`; connections that this woke to `woken`. False: close the connection
  /// (after sending `reply`), since it sent something that is no request, or asked too much.
  [[nodiscard]] bool receive(std::string_view bytes, std::string& reply, KeySpace::Woken& woken);

  /// True: complete requests may be left over because `reply` was full. Then nothing more is to be
  /// received; resume() once `reply` has been sent and is empty. It returns what receive() does.
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] bool resume(std::string& reply, KeySpace::Woken& woken);

 private:
  bool execute(const store_protocol::Request& request, std::string& reply, KeySpace::Woken& woken);
  bool execute_on_many(const store_protocol::Request& request, std::string& reply,
                       KeySpace::Woken& woken);

  KeySpace& keys_;
  ConnectionId id_;
  bool paused_ = false;
  store_protocol::RequestParser parser_;
};

}  // namespace ddprun
