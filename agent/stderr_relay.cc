#include "agent/stderr_relay.h"

#include <fcntl.h>
#include <unistd.h>

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

struct StderrRelay::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, Console& target) : read_end(io), console(target) {}

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
    if (console.full()) {
      console.on_room([self = shared_from_this()] {
        if (!self->closed) {
          self->wait();
        }
      });
      return;
    }
    if (read_some()) {
      wait();
    }
  }

  /// False at the end of the pipe.
  bool read_some() {
    std::array<char, 16 * 1024> buffer;
    const ssize_t size = ::read(read_end.native_handle(), buffer.data(), buffer.size());
    if (size <= 0) {
      return size < 0 && (errno == EAGAIN || errno == EINTR);
    }
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    console.write(bytes);
    kept += bytes;
    if (kept.size() > 8 * kStderrTailBytesMax) {
      kept = last_lines(kept, kStderrTailBytesMax);
    }
    return true;
  }

  asio::posix::stream_descriptor read_end;
  Console& console;
  Fd write_end;
  std::string kept;
  bool closed = false;
};

Result<std::unique_ptr<StderrRelay>> StderrRelay::create(asio::io_context& io, Console& console) {
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
  return std::unique_ptr<StderrRelay>(new StderrRelay(std::move(impl)));
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
  // At most what a pipe can hold: a process that goes on writing must not keep us here.
  constexpr int kPipeReadsMax = 64;
  std::size_t before = 0;
  for (int i = 0; i < kPipeReadsMax; ++i) {
    before = impl_->kept.size();
    if (!impl_->read_some() || impl_->kept.size() == before) {
      break;
    }
  }
  return last_lines(impl_->kept, kStderrTailBytesMax);
}

}  // namespace ddprun
