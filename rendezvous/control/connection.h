// Connection: a stream of messages over one connected socket, with a heartbeat and a bounded write
// queue. Used at both ends; internal to control.
//
// Liveness. The beating side (the agent) sends a Beat when its lease says so (node/follower_lease),
// the other side answers each at once, and takes the agent for lost when nothing at all has come
// for its own timeout. One timer a connection; each beat moves it, so that it never wakes the
// process for a silence that has ended: an idle connection costs its beats and nothing else. A
// socket pair has timeout 0: no beats, its end of file suffices.
//
// Over TLS the session is here, between the socket and the frames; what the socket's end says about
// the other process is as without it.
//
// The handler is called on the loop, never from inside send() or close().
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"
#include "rendezvous/control/channel.h"
#include "rendezvous/node/follower_lease.h"
#include "rendezvous/protocol/frame.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

/// Bytes that a peer may leave unread before it counts as dead: the largest frame, and some more.
/// A voter of a job of 100,000 nodes is told where all are, at up to 400 bytes each.
inline constexpr std::size_t kWriteQueueBytesMax = 8 * kCoordinatorFrameBytesMax;
/// How long a connection that is being closed in order may take to read what it was sent.
inline constexpr std::chrono::seconds kLingerMax{2};

struct ConnectionOptions {
  bool expect_preamble = true;
  /// Who has not said its preamble for this long after connecting is no agent; 0 = no limit.
  std::chrono::milliseconds preamble_timeout{0};
  std::chrono::milliseconds heartbeat_timeout{0};
  bool beats = false;
  /// Of the beating side: when it asked for the answer that it has; silence counts from there.
  std::chrono::steady_clock::time_point asked_at = std::chrono::steady_clock::time_point::max();
  /// When it is over the socket is held, as hold() does, and not closed.
  bool keep_open_when_closed = false;
  /// Said first where this side ends it and holds it. Its end is a reset then: an orderly one is
  /// that of a process that died, and these bytes may never have arrived.
  std::string_view last_word = {};  ///< outlives the connection
  std::size_t frame_bytes_max = kAgentFrameBytesMax;
};

/// Why a connection is over.
struct CloseReason {
  std::string why;                        ///< a clause: "its connection closed"
  std::chrono::nanoseconds silent_for{};  ///< larger than zero: it fell silent
  /// Its kernel closed it in order, as it does when the process dies: after all that was said. (A
  /// reset may have swallowed a last word.)
  bool by_peer = false;
  /// Its kernel reset it: the process died with bytes unread, or it gave this connection up.
  bool by_reset = false;
};

/// What happens on connections. One handler may serve many: `id` is what its owner called the
/// connection. It outlives them, or closes or releases each before it dies.
class ConnectionHandler {
 public:
  ConnectionHandler() = default;
  ConnectionHandler(const ConnectionHandler&) = delete;
  ConnectionHandler& operator=(const ConnectionHandler&) = delete;
  virtual ~ConnectionHandler() = default;

  virtual void on_message(std::uint64_t id, message::Message said) = 0;
  /// The first bytes are no preamble of this version: all bytes read so far. Also called, with
  /// `incomplete` and what there is, when preamble_timeout has passed. Nothing more is read until
  /// the handler has released the connection or closed it, in order or at once.
  virtual void on_no_preamble(std::uint64_t id, PreambleCheck check, std::string bytes) = 0;
  /// Once, unless close() or release() came first.
  virtual void on_ended(std::uint64_t id, const CloseReason& end) = 0;
  /// After watch(): the peer has said something.
  virtual void on_heard(std::uint64_t /*id*/) {}
  /// Of the answering side: what to say in an answer of Beat's quorum_age.
  virtual std::optional<std::chrono::nanoseconds> quorum_age() { return std::nullopt; }
  /// Of the answering side: the peer had what was sent at this time.
  virtual void on_echoed(std::uint64_t /*id*/, std::chrono::steady_clock::time_point /*sent*/) {}
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  static std::shared_ptr<Connection> create(boost::asio::io_context& io, Channel channel,
                                            ConnectionOptions options, ConnectionHandler& handler,
                                            std::uint64_t id = 0);
  /// Begins to read, and to beat once the preamble is there. Once.
  void start();

  /// Queues bytes (frames, a preamble). Ignored when the connection is over.
  void send(std::string_view bytes);
  /// Closes at once, in order: for the peer this is as the death of this process. The handler is
  /// not called any more.
  void close();
  /// The same by a reset, which says nothing about this process: it lives, and gave the peer up.
  void close_by_reset();
  /// Says and hears nothing any more, and does not call the handler; the socket stays open until
  /// this object is gone. The peer is not to believe that this side is gone before it is.
  void hold();
  /// Closes after all that was sent has been read by the peer, or kLingerMax; what comes in is
  /// dropped. on_ended() is called then.
  void close_after_flush();
  /// Calls on_heard() once, the next time that the peer says anything; bytes that came before and
  /// were not read yet do not count.
  void watch();
  /// Hands the socket over, in non-blocking mode, and TLS with it; nothing where the connection is
  /// over. The handler is not called any more.
  Channel release();
  [[nodiscard]] int native_handle();

  /// For messages that carry a Beat's stamp: now.
  [[nodiscard]] static std::int64_t stamp_now();
  /// Of the beating side: `stamp` came with another message than a Beat. `soon`: the coordinator is
  /// about to need it often.
  void take_stamp(std::int64_t stamp, bool soon = false);
  /// The peer has handed out a world (FollowerLease::world_begins).
  void world_begins();
  /// Of the beating side: when the newest stamp came.
  [[nodiscard]] Clock::time_point stamp_came_at() const {
    return Clock::time_point(lease_->stamp_came_at());
  }

 private:
  /// What the socket did not take yet.
  struct Unsent {
    std::string bytes;
    std::size_t gone = 0;  ///< of the bytes, at their front
    bool waiting = false;  ///< for the socket to take more
  };
  Connection(boost::asio::io_context& io, Channel channel, ConnectionOptions options,
             ConnectionHandler& handler, std::uint64_t id);

  void wait_readable();
  void on_readable();
  void take_bytes(std::string_view bytes);
  void take_unread(const std::string& bytes);
  void note_life();
  void decrypt(std::string_view bytes);
  bool take_frame(std::uint8_t type, std::string_view payload);
  void write(std::string_view bytes);
  void wait_writable();
  void on_writable();
  void begin_heartbeat();
  void arm_timer();
  void on_timer();
  void end(std::string why, std::chrono::nanoseconds silent_for = {}, bool by_peer = false);
  void take_beat(const message::Beat& beat);
  void answer(const message::Beat& beat);
  void echoed(std::int64_t stamp);
  void beat();
  void on_lease_timer(Clock::time_point now);
  void on_silence_timer(Clock::time_point now);
  void lost_lease(Instant now);
  void fell_silent(std::chrono::nanoseconds silent_for);
  void reset_when_closed();
  void say_last_word();
  [[nodiscard]] bool heart_beats() const;

  ConnectionOptions options_;
  ConnectionHandler& handler_;
  std::uint64_t id_;
  boost::asio::posix::stream_descriptor socket_;
  boost::asio::steady_timer timer_;
  Fd held_;
  std::unique_ptr<TlsSession> tls_;  ///< null: plain text
  FrameReader reader_;
  std::string preamble_;  ///< its bytes until it is whole
  Unsent unsent_;
  Clock::time_point heard_at_;            ///< last byte
  std::unique_ptr<FollowerLease> lease_;  ///< of the beating side
  Clock::time_point linger_ends_;
  int reads_to_heard_ = 0;  ///< see watch(); 0 = nobody asked
  bool preamble_pending_;
  std::size_t wordless_bytes_ = 0;  ///< of TLS, since its last words
  bool lingering_ = false;
  bool by_reset_ = false;  ///< the peer's kernel ended it so
  bool over_ = false;      ///< nothing is read, written or timed any more
  bool silenced_ = false;  ///< the owner wants no more calls
};

}  // namespace ddprun
