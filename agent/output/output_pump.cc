#include "agent/output/output_pump.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "agent/output/output_tail.h"
#include "agent/output/pseudo_terminal.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// What tail() reads at most: a process that goes on writing must not keep the agent there.
constexpr std::size_t kTailReadBytesMax = 16 * OutputPump::kBytesPerTurn;

}  // namespace

struct OutputPump::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, OutputSink target) : read_end(io), sink(std::move(target)) {}

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
    if (sink.console != nullptr && sink.console->full()) {
      sink.console->on_room([self = shared_from_this()] {
        if (!self->closed) {
          self->wait();
        }
      });
      return;
    }
    (void)read_some();
    if (at_end) {
      end();
    } else {
      wait();
    }
  }

  /// Bytes read; 0 when there is nothing now, or at the end. A pipe gives all it holds with one
  /// read, so that a line is cut in two (and another worker's text put in between) only where the
  /// worker itself wrote it in pieces; a terminal gives at most 4 KiB, so it is read again.
  std::size_t read_some() {
    std::size_t size = 0;
    while (size < buffer.size()) {
      const ssize_t got =
          ::read(read_end.native_handle(), buffer.data() + size, buffer.size() - size);
      if (got <= 0) {
        at_end = got == 0 || (errno != EAGAIN && errno != EINTR);  // EIO: a terminal's end
        break;
      }
      size += static_cast<std::size_t>(got);
      if (!is_terminal) {
        break;
      }
    }
    const std::string_view bytes(buffer.data(), size);
    if (!bytes.empty()) {
      // Kept before it is shown: a report needs the last words also where the console takes
      // nothing.
      kept.append(bytes);
      if (sink.take) {
        sink.take(bytes);
      }
    }
    return size;
  }

  void read_what_waits() {
    for (std::size_t read = 0; !at_end && read < kTailReadBytesMax;) {
      const std::size_t size = read_some();
      if (size == 0) {
        break;
      }
      read += size;
    }
  }

  /// Nothing comes any more.
  void end() {
    if (!std::exchange(told_end, true) && sink.at_end) {
      sink.at_end();
    }
  }

  asio::posix::stream_descriptor read_end;
  OutputSink sink;
  Fd write_end;
  std::array<char, kBytesPerTurn> buffer;  // what a pipe holds by default
  OutputTail kept{kStderrTailBytesMax};
  bool is_terminal = false;
  bool at_end = false;
  bool told_end = false;
  bool closed = false;
};

Result<std::unique_ptr<OutputPump>> OutputPump::create(asio::io_context& io, OutputSink sink) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return errno_error(errno, "cannot make a pipe for a worker's stderr", {},
                       "raise the limit of open files (ulimit -n)");
  }
  // Only our end: the worker's must block as a plain stderr does.
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return start(io, std::move(sink), ends[0], ends[1]);
}

Result<std::unique_ptr<OutputPump>> OutputPump::create(asio::io_context& io, Console& console) {
  return create(io, OutputSink{[&console](std::string_view bytes) { console.write(bytes); },
                               nullptr, &console});
}

Result<std::unique_ptr<OutputPump>> OutputPump::create_hidden(asio::io_context& io) {
  return create(io, OutputSink{});
}

Result<std::unique_ptr<OutputPump>> OutputPump::create_terminal(asio::io_context& io,
                                                                OutputSink sink, int like) {
  auto terminal = open_pseudo_terminal(like);
  if (!terminal) {
    return terminal.error();
  }
  auto relay = start(io, std::move(sink), terminal->ours.release(), terminal->workers.release());
  // After start(): nothing is read before the loop runs.
  relay->impl_->is_terminal = true;
  return relay;
}

/// Reads from now on: a worker may write before the call that spawned it has returned.
std::unique_ptr<OutputPump> OutputPump::start(asio::io_context& io, OutputSink sink, int ours,
                                              int workers) {
  auto impl = std::make_shared<Impl>(io, std::move(sink));
  impl->write_end.reset(workers);
  impl->read_end.assign(ours);
  impl->wait();
  return std::make_unique<OutputPump>(std::move(impl));
}

OutputPump::OutputPump(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

OutputPump::~OutputPump() {
  impl_->read_what_waits();
  impl_->end();
  // A handler that is queued keeps the Impl alive and stops here; the console may be gone by then.
  impl_->closed = true;
  impl_->sink = {};
  boost::system::error_code ignored;
  impl_->read_end.close(ignored);
}

/// Opened by this name, the worker's end is a description of its own: its flags are not shared with
/// the agent's.
std::string OutputPump::path() const {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), impl_->write_end.get());
}

void OutputPump::close_write_end() {
  impl_->write_end.reset();
}

void OutputPump::copy_window_size_of(int like) {
  if (impl_->is_terminal) {
    copy_window_size(like, impl_->read_end.native_handle());
  }
}

/// Asked for when a worker has failed, whose last words may still be in the pipe.
std::string OutputPump::tail() {
  impl_->read_what_waits();
  if (impl_->at_end) {
    impl_->end();
  }
  return impl_->kept.text();
}

}  // namespace ddprun
