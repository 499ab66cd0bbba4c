#include "agent/stderr_relay.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "agent/failure_evidence.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// What a pipe holds by default: one read empties it, so that a line is cut in two (and another
/// worker's text put in between) only where the worker itself wrote it in pieces.
constexpr std::size_t kPipeBytes = 64 * 1024;
/// What tail() reads at most: a process that goes on writing must not keep the agent there.
constexpr std::size_t kTailReadBytesMax = 16 * kPipeBytes;
/// The kept text is cut back when it has grown to this: seldom, so that it costs next to nothing.
constexpr std::size_t kKeptBytesMax = 8 * kStderrTailBytesMax;

}  // namespace

struct StderrRelay::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, Console* target) : read_end(io), console(target) {}

  void wait() {
    read_end.async_wait(asio::posix::stream_descriptor::wait_read,
                        [self = shared_from_this()](boost::system::error_code error) {
                          if (!error && !self->closed) {
                            self->on_readable();
                          }
                        });
  }

  void on_readable() {
    // While the console is full the pipe fills up and the worker waits, as it would have without
    // us.
    if (console != nullptr && console->full()) {
      console->on_room([self = shared_from_this()] {
        if (!self->closed) {
          self->wait();
        }
      });
      return;
    }
    (void)read_some();
    if (!at_end) {
      wait();
    }
  }

  /// Bytes read; 0 when there is nothing now, or at the end of the pipe.
  std::size_t read_some() {
    const ssize_t size = ::read(read_end.native_handle(), buffer.data(), buffer.size());
    if (size <= 0) {
      at_end = size == 0 || (errno != EAGAIN && errno != EINTR);
      return 0;
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    if (console != nullptr) {
      console->write(bytes);
    }
    kept += bytes.substr(bytes.size() - std::min(bytes.size(), kKeptBytesMax));
    if (kept.size() > kKeptBytesMax) {
      kept = last_lines(kept, kStderrTailBytesMax);
    }
    return bytes.size();
  }

  asio::posix::stream_descriptor read_end;
  Console* console;  // none: nothing is shown
  Fd write_end;
  std::array<char, kPipeBytes> buffer;
  std::string kept;
  bool at_end = false;
  bool closed = false;
};

Result<std::unique_ptr<StderrRelay>> StderrRelay::create(asio::io_context& io, Console& console) {
  return make(io, &console);
}

Result<std::unique_ptr<StderrRelay>> StderrRelay::create_hidden(asio::io_context& io) {
  return make(io, nullptr);
}

Result<std::unique_ptr<StderrRelay>> StderrRelay::make(asio::io_context& io, Console* console) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return errno_error(errno, "cannot make a pipe for a worker's stderr", {},
                       "raise the limit of open files (ulimit -n)");
  }
  auto impl = std::make_shared<Impl>(io, console);
  impl->write_end.reset(ends[1]);
  // Only our end: the worker's must block as a plain stderr does.
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  impl->read_end.assign(ends[0]);
  impl->wait();
  return std::make_unique<StderrRelay>(std::move(impl));
}

StderrRelay::StderrRelay(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

StderrRelay::~StderrRelay() {
  (void)tail();
  impl_->closed = true;
  boost::system::error_code ignored;
  impl_->read_end.close(ignored);
}

std::string StderrRelay::path() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(impl_->write_end.get());
}

void StderrRelay::close_write_end() {
  impl_->write_end.reset();
}

std::string StderrRelay::tail() {
  std::size_t read = 0;
  while (!impl_->at_end && read < kTailReadBytesMax) {
    const std::size_t size = impl_->read_some();
    if (size == 0) {
      break;
    }
    read += size;
  }
  return last_lines(impl_->kept, kStderrTailBytesMax);
}

}  // namespace ddprun
