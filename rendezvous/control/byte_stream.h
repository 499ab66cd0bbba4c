// ByteStream: bytes over a channel, before a Connection goes on with it: some are read when its
// owner asks for them, and never more than that. What is over TLS is plain text here. Internal to
// control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/control/channel.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

/// Why nothing more can be read.
struct StreamEnd {
  bool by_reset = false;
  /// Of TLS, a clause about the other side; empty: the connection ended.
  std::string failure = {};
};

/// Called on the loop, never from inside of a call of the stream.
class ByteStreamOwner {
 public:
  ByteStreamOwner() = default;
  ByteStreamOwner(const ByteStreamOwner&) = delete;
  ByteStreamOwner& operator=(const ByteStreamOwner&) = delete;
  virtual ~ByteStreamOwner() = default;

  /// After read_some(): one byte or more.
  virtual void on_bytes(std::string bytes) = 0;
  /// In its place, once.
  virtual void on_stream_end(const StreamEnd& end) = 0;
};

class ByteStream {
 public:
  /// `owner` outlives this, or closes or releases it before it dies.
  static std::shared_ptr<ByteStream> create(boost::asio::io_context& io, Channel channel,
                                            ByteStreamOwner& owner);
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  /// At most so many; one call at a time.
  virtual void read_some(std::size_t most) = 0;
  /// What cannot be written shows where the answer is read.
  virtual void write(std::string_view bytes) = 0;
  /// Says nothing more: once all is written, the other side reads the end.
  virtual void finish_writing() = 0;
  /// Hands the channel over, with what came and was not read. None: the socket did not take yet
  /// what was written, or cannot be watched.
  virtual Channel release() = 0;
  virtual void close() = 0;
  /// Whether the other side has ended the connection and nothing that it said is unread: seen
  /// without a read, which would tell it.
  [[nodiscard]] virtual bool has_ended() = 0;
};

}  // namespace ddprun
