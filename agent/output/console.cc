#include "agent/output/console.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <climits>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"

namespace ddprun {

namespace asio = boost::asio;

struct Console::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& context, int stream) : io(context), fd(stream), ready(context) {}

  void open() {
    struct stat status {};
    // A closed descriptor (ddprun ... 2>&-): everything is swallowed.
    if (::fstat(fd, &status) != 0) {
      broken = true;
      return;
    }
    if (S_ISREG(status.st_mode)) {
      return;  // always ready; epoll would refuse it
    }
    is_socket = S_ISSOCK(status.st_mode);
    // A description of our own may be non-blocking; that of the shell, which workers may have as
    // well, may not become so. Not every stream can be reopened: a socket never, a pipe or terminal
    // of another user (sudo) neither. Then a duplicate is written to: a socket takes a flag with
    // each write; the others get only what POSIX promises to be taken once poll() says so.
    target.reset(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                        O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    non_blocking = static_cast<bool>(target);
    if (!target) {
      // Shares the description with the shell, so no flag of it is changed.
      target.reset(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
    }
    // Asio makes whatever it watches non-blocking. So it watches an epoll instance, and that one
    // watches the stream.
    Fd watch(::epoll_create1(EPOLL_CLOEXEC));
    epoll_event nothing_yet{};
    if (::epoll_ctl(watch.get(), EPOLL_CTL_ADD, target.get(), &nothing_yet) != 0) {
      return;  // a stream that epoll refuses, such as /dev/null: always ready
    }
    watched = true;
    ready.assign(watch.release());
  }

  /// Bytes taken; 0: not now; -1: never.
  ssize_t try_write(std::string_view bytes) {
    if (!watched) {
      // A file, or a device that epoll refuses: at worst this waits for a disk.
      return keep_trying(fd, bytes);
    }
    if (is_socket) {
      return not_now_is_0(
          ::send(target.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    }
    if (non_blocking) {
      return not_now_is_0(::write(target.get(), bytes.data(), bytes.size()));
    }
    pollfd can_write{target.get(), POLLOUT, 0};
    if (::poll(&can_write, 1, 0) <= 0) {
      return 0;
    }
    return keep_trying(target.get(), bytes.substr(0, PIPE_BUF));
  }

  static ssize_t not_now_is_0(ssize_t taken) {
    return taken >= 0 ? taken : (errno == EAGAIN || errno == EINTR ? 0 : -1);
  }

  /// A signal may interrupt a blocking write before it has taken anything.
  static ssize_t keep_trying(int stream, std::string_view bytes) {
    ssize_t taken = 0;
    do {
      taken = ::write(stream, bytes.data(), bytes.size());
    } while (taken < 0 && errno == EINTR);
    return taken;
  }

  /// Writes from the front of `waiting` until the stream takes no more.
  void flush() {
    while (!broken && at < waiting.size()) {
      const ssize_t taken = try_write(std::string_view(waiting).substr(at));
      // The stream is full: EPOLLOUT brings the rest out.
      if (taken == 0) {
        break;
      }
      if (taken < 0) {
        fail(errno);
        break;
      }
      at += static_cast<std::size_t>(taken);
    }
    if (at == waiting.size()) {
      waiting.clear();
      at = 0;
    }
  }

  /// A file may take bytes again, once its disk has room. A reader does not come back.
  void fail(int why) {
    failure = failure == 0 ? why : failure;
    broken = watched;
    waiting.clear();
    at = 0;
  }

  void wait_until_ready() {
    if (armed || waiting.empty()) {
      return;
    }
    armed = true;
    // Once: nobody wants to be woken by a stream that is ready while nothing waits.
    epoll_event writable{};
    writable.events = EPOLLOUT | EPOLLONESHOT;
    ::epoll_ctl(ready.native_handle(), EPOLL_CTL_MOD, target.get(), &writable);
    ready.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](boost::system::error_code error) {
                       self->armed = false;
                       // The console is closed. After any other error a write may still be tried.
                       if (error == asio::error::operation_aborted) {
                         return;
                       }
                       self->flush();
                       self->wait_until_ready();
                       self->tell();
                     });
  }

  [[nodiscard]] std::size_t left() const { return waiting.size() - at; }

  /// Posts the callbacks: they write or read on, and must not run inside the write() of their
  /// caller.
  void tell() {
    if (left() < kBufferBytesMax) {
      for (auto& callback : std::exchange(room, {})) {
        asio::post(io, std::move(callback));
      }
    }
    if (left() == 0) {
      for (auto& callback : std::exchange(flushed, {})) {
        asio::post(io, std::move(callback));
      }
    }
  }

  asio::io_context& io;
  int fd;
  Fd target;                             // another descriptor of the same stream
  asio::posix::stream_descriptor ready;  // an epoll instance that watches `target`
  bool watched = false;
  bool is_socket = false;
  bool non_blocking = false;  // `target` is a description of our own
  bool broken = false;
  int failure = 0;  // the first error
  bool armed = false;
  std::string waiting;
  std::size_t at = 0;  // written already
  std::vector<std::function<void()>> room;
  std::vector<std::function<void()>> flushed;
};

Console::Console(asio::io_context& io, int fd) : impl_(std::make_shared<Impl>(io, fd)) {
  impl_->open();
}

Console::~Console() {
  // No callback comes after this: their owners may end before the loop does.
  boost::system::error_code ignored;
  impl_->ready.close(ignored);
  impl_->room.clear();
  impl_->flushed.clear();
}

void Console::write_from(const void* stream, std::string_view bytes) {
  std::string whole;
  line_.append(stream, bytes, whole);
  write(whole);
}

void Console::write_escapes(std::string_view bytes) {
  write(bytes);
  has_open_line_ = false;
}

void Console::end_line() {
  if (has_open_line_) {
    write("\n");
  }
  (void)line_.end();
}

void Console::write(std::string_view bytes) {
  if (!bytes.empty()) {
    has_open_line_ = bytes.back() != '\n';
  }
  // After a closed pipe the bytes are dropped: the job does not end for its console.
  if (impl_->broken) {
    return;
  }
  if (impl_->at > kBufferBytesMax) {  // what is written leaves the buffer now and then
    impl_->waiting.erase(0, impl_->at);
    impl_->at = 0;
  }
  impl_->waiting += bytes;
  impl_->flush();
  impl_->wait_until_ready();
}

int Console::failure() const {
  return impl_->failure;
}

bool Console::is_broken() const {
  return impl_->broken;
}

bool Console::full() const {
  return impl_->left() >= kBufferBytesMax;
}

void Console::on_room(std::function<void()> callback) {
  impl_->room.push_back(std::move(callback));
  impl_->tell();
}

void Console::on_flushed(std::function<void()> callback) {
  impl_->flushed.push_back(std::move(callback));
  impl_->tell();
}

}  // namespace ddprun
