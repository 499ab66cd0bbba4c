#include "agent/process/file_timer.h"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/fd.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

/// The wall clock may be set: the timer looks at it at least this often while timers run.
constexpr std::chrono::seconds kLookAgain{10};

WallTime wall_now() {
  return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

/// PyTorch's agent names its FIFO watchdog_timer_<uuid>: the random part keeps the agents of one
/// machine apart.
std::string new_name() {
  std::array<unsigned char, 16> bytes{};
  DDP_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "16 random bytes are never cut short or interrupted");
  std::string name = std::filesystem::temp_directory_path() / "watchdog_timer_";
  for (const unsigned char byte : bytes) {
    name += "0123456789abcdef"[byte % 16];
  }
  return name;
}

/// Replaces only a dead FIFO. Each byte of a FIFO reaches one reader, so two agents on one path
/// would lose timers to each other.
Result<Fd> make_fifo(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) {
    if (!S_ISFIFO(status.st_mode)) {
      return Error{"there is something that is no FIFO", path,
                   "name another file by TORCHELASTIC_TIMER_FILE, or unset it"};
    }
    if (const Fd heard(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC)); heard) {
      return Error{"another process reads from this FIFO", path,
                   "give each agent of a machine its own TORCHELASTIC_TIMER_FILE, or unset it"};
    }
    ::unlink(path.c_str());
  }
  if (::mkfifo(path.c_str(), 0600) != 0) {
    return errno_error(errno, "cannot make the FIFO of the file timers", path);
  }
  // For reading and writing: so the file has no end when no worker has it open.
  Fd fd(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    return errno_error(errno, "cannot open the FIFO of the file timers", path);
  }
  return fd;
}

}  // namespace

struct FileTimer::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, std::string file, OnExpired hook, std::shared_ptr<spdlog::logger> l)
      : path(std::move(file)),
        on_expired(std::move(hook)),
        log(std::move(l)),
        fifo(io),
        next_expiry(io) {}

  void read() {
    fifo.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](boost::system::error_code error) {
                      if (!error && !self->over) {
                        self->on_readable();
                      }
                    });
  }

  /// One piece per turn of the loop: a worker that writes without end holds nobody up.
  void on_readable() {
    std::array<char, 16 * 1024> buffer;
    const ssize_t got = ::read(fifo.native_handle(), buffer.data(), buffer.size());
    if (got > 0) {
      lines.feed({buffer.data(), static_cast<std::size_t>(got)},
                 [this](std::string_view line) { on_line(line); });
      arm();
    }
    read();
  }

  void on_line(std::string_view line) {
    std::string why;
    const auto request = parse_timer_request(line, why);
    if (request && table.apply(*request)) {
      return;
    }
    // Once: a process that writes junk there will do so again.
    if (!std::exchange(complained, true)) {
      log->warn("ignoring a line in the file timers' FIFO {}: {}; more of them are not logged",
                path, request ? "there are too many timers" : why);
    }
  }

  /// The protocol gives expiry on the wall clock, which may be set; the timer counts on the steady
  /// clock. kLookAgain bounds the error of such a jump.
  void arm() {
    const auto next = table.next_expiry();
    if (!next) {
      next_expiry.cancel();
      armed.reset();
      return;
    }
    if (armed == next) {
      return;
    }
    armed = next;
    const auto left = std::max(std::chrono::microseconds(0), *next - wall_now());
    next_expiry.expires_after(std::min<std::chrono::microseconds>(left, kLookAgain));
    next_expiry.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (error || self->over) {
        return;
      }
      self->armed.reset();
      for (const ExpiredTimer& expired : self->table.take_expired(wall_now())) {
        self->on_expired(expired);
      }
      self->arm();
    });
  }

  std::string path;
  OnExpired on_expired;
  std::shared_ptr<spdlog::logger> log;
  asio::posix::stream_descriptor fifo;
  asio::steady_timer next_expiry;
  TimerLines lines;
  TimerTable table;
  std::optional<WallTime> armed;
  bool complained = false;
  bool over = false;
};

Result<std::unique_ptr<FileTimer>> FileTimer::create(asio::io_context& io, std::string path,
                                                     OnExpired on_expired,
                                                     std::shared_ptr<spdlog::logger> log) {
  if (path.empty()) {
    path = new_name();
  }
  auto fifo = make_fifo(path);
  if (!fifo) {
    return fifo.error();
  }
  auto impl = std::make_shared<Impl>(io, std::move(path), std::move(on_expired), std::move(log));
  impl->fifo.assign(fifo->release());
  impl->read();
  return std::make_unique<FileTimer>(std::move(impl));
}

FileTimer::FileTimer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

FileTimer::~FileTimer() {
  // A wait that is queued already runs its handler with success; `over` stops it there.
  impl_->over = true;
  boost::system::error_code ignored;
  impl_->fifo.close(ignored);
  impl_->next_expiry.cancel();
  ::unlink(impl_->path.c_str());
}

const std::string& FileTimer::path() const {
  return impl_->path;
}

void FileTimer::forget_all() {
  impl_->table.clear();
  impl_->arm();
}

}  // namespace ddprun
