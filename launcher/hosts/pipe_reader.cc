#include "launcher/hosts/pipe_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

struct PipeReader::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, Events what) : pipe(io), events(std::move(what)) {}

  /// For one read at a time. Level-triggered in effect: what one read leaves is there at the next.
  void wait() {
    pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](boost::system::error_code error) {
                      if (!error && !self->closed) {
                        self->read();
                      }
                    });
  }

  void read() {
    if (Console* const full = events.full ? events.full() : nullptr) {
      // Nothing is read meanwhile, so the pipe fills up and its writer waits, as with a slow
      // terminal. That is all that bounds the memory of a long way.
      paused = true;
      full->on_room([self = shared_from_this()] {
        if (!self->closed) {
          self->paused = false;
          self->read();  // another console may be full
        }
      });
      return;
    }
    const ssize_t size = ::read(pipe.native_handle(), buffer.data(), buffer.size());
    // Of a pipe any other failure than "not now" is an end: nothing will come of it any more.
    if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR)) {
      at_end = true;
      events.on_end();
      return;
    }
    if (size > 0) {
      events.on_bytes(std::string_view(buffer.data(), static_cast<std::size_t>(size)));
    }
    // The bytes may have led to the end of this object.
    if (!closed) {
      wait();
    }
  }

  asio::posix::stream_descriptor pipe;
  Events events;
  std::array<char, kBytesPerTurn> buffer;
  bool at_end = false;
  bool paused = false;
  bool closed = false;
};

PipeReader::PipeReader(asio::io_context& io, Fd pipe, Events events)
    : impl_(std::make_shared<Impl>(io, std::move(events))) {
  // Also where it is the stdin of ddprun, of which nobody else has this description: sshd makes a
  // pipe for each command.
  ::fcntl(pipe.get(), F_SETFL, O_NONBLOCK);
  impl_->pipe.assign(pipe.release());
  impl_->wait();
}

PipeReader::~PipeReader() {
  // A handler that is queued keeps the Impl alive, and stops at this mark.
  impl_->closed = true;
  boost::system::error_code ignored;
  impl_->pipe.close(ignored);
}

bool PipeReader::is_at_end() const {
  return impl_->at_end;
}

bool PipeReader::is_paused() const {
  return impl_->paused;
}

}  // namespace ddprun
