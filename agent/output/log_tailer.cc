#include "agent/output/log_tailer.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>
#include <vector>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/open_files.h"

namespace ddprun {

namespace asio = boost::asio;

struct LogTailer::Impl : std::enable_shared_from_this<Impl> {
  explicit Impl(asio::io_context& context) : io(context), inotify(context) {}

  struct File {
    Fd fd;
    int watch = -1;
    off_t at = 0;
    Sink sink;
    bool may_have_more = true;
    bool waits_for_room = false;  // asked the console to call
    bool ended = false;
  };

  void wait_for_events() {
    inotify.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](boost::system::error_code error) {
                         if (error || self->closed) {
                           return;
                         }
                         self->read_events();
                         self->schedule();
                         self->wait_for_events();
                       });
  }

  /// Which files were written to. An overflow of the queue concerns all of them.
  void read_events() {
    alignas(inotify_event) std::array<char, 4096> buffer{};
    // inotify(7): equal events in a row are merged, so the queue stays short while a worker writes
    // without pause.
    const ssize_t size = ::read(inotify.native_handle(), buffer.data(), buffer.size());
    for (ssize_t offset = 0; offset < size;) {
      const auto* event = reinterpret_cast<const inotify_event*>(buffer.data() + offset);
      for (auto& file : files) {
        if ((event->mask & IN_Q_OVERFLOW) != 0 || file.watch == event->wd) {
          file.may_have_more = true;
        }
      }
      offset += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
  }

  /// Queues at most one turn, however many events and callers ask for it.
  void schedule() {
    if (!scheduled) {
      scheduled = true;
      asio::post(io, [self = shared_from_this()] {
        self->scheduled = false;
        if (!self->closed) {
          self->turn();
        }
      });
    }
  }

  /// One turn: at most kBytesPerTurn, beginning behind the file that was served last.
  void turn() {
    std::size_t budget = kBytesPerTurn;
    bool again = false;
    for (std::size_t i = 0; i < files.size(); ++i) {
      next = (next + 1) % files.size();
      File& file = files[next];
      if (!file.may_have_more) {
        continue;
      }
      if (file.sink.console != nullptr && file.sink.console->full()) {
        wait_for_room(file);
        continue;
      }
      // `next` stays at the file where the budget ran out, so one that is written fast starves no
      // other.
      budget -= std::min(budget, read_some(file, budget));
      again = again || file.may_have_more;
      if (budget == 0) {
        break;
      }
    }
    if (again) {
      schedule();
    } else {
      end_when_drained();
    }
  }

  /// One read of one file: the turn spreads its budget over all of them.
  std::size_t read_some(File& file, std::size_t budget) {
    const std::size_t wanted = std::min(budget, chunk.size());
    // pread: `at` goes back when somebody cuts the file, and the descriptor has no position to
    // correct.
    const ssize_t size = ::pread(file.fd.get(), chunk.data(), wanted, file.at);
    if (size > 0) {
      file.at += size;
      file.sink.take(std::string_view(chunk.data(), static_cast<std::size_t>(size)));
      return static_cast<std::size_t>(size);
    }
    struct stat status {};
    if (::fstat(file.fd.get(), &status) == 0 && status.st_size < file.at) {
      file.at = 0;  // cut short by somebody: go on from its new begin
      return 0;
    }
    file.may_have_more = false;
    return 0;
  }

  /// Once at a time: the worker goes on writing, and each of its writes brings a turn.
  void wait_for_room(File& file) {
    if (std::exchange(file.waits_for_room, true)) {
      return;
    }
    // By index: follow() may move the files while this waits.
    file.sink.console->on_room([self = shared_from_this(), index = next] {
      if (!self->closed) {
        self->files[index].waits_for_room = false;
        self->schedule();
      }
    });
  }

  void end_when_drained() {
    if (!done) {
      return;
    }
    const bool drained = std::none_of(files.begin(), files.end(),
                                      [](const File& file) { return file.may_have_more; });
    if (!drained) {
      return;  // a full console: its on_room brings us back
    }
    for (auto& file : files) {
      if (!std::exchange(file.ended, true) && file.sink.at_end) {
        file.sink.at_end();
      }
    }
    // Posted, since `done` may destroy this tailer.
    asio::post(io, std::exchange(done, nullptr));
  }

  asio::io_context& io;
  asio::posix::stream_descriptor inotify;
  std::vector<File> files;
  std::size_t next = 0;
  std::array<char, 64 * 1024> chunk;
  bool scheduled = false;
  bool closed = false;
  std::function<void()> done;
};

Result<std::unique_ptr<LogTailer>> LogTailer::create(asio::io_context& io) {
  const int fd = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (fd < 0) {
    // inotify_init(2) says EMFILE for both limits.
    return errno_error(errno, "cannot watch log files (inotify)", {},
                       "raise ulimit -n or fs.inotify.max_user_instances, or go without --tee");
  }
  auto impl = std::make_shared<Impl>(io);
  impl->inotify.assign(fd);
  impl->wait_for_events();
  return std::make_unique<LogTailer>(std::move(impl));
}

LogTailer::LogTailer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

LogTailer::~LogTailer() {
  // Handlers that are queued keep the Impl alive; they find `closed`, and touch neither sinks nor
  // files.
  impl_->closed = true;
  boost::system::error_code ignored;
  impl_->inotify.close(ignored);
  impl_->files.clear();
  impl_->done = nullptr;
}

Result<void> LogTailer::follow(const std::string& path, Sink sink) {
  Impl::File file;
  file.fd.reset(::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC, 0644));
  if (!file.fd) {
    return errno_error(errno, "cannot open the log file", path, open_files_todo(errno));
  }
  // follow() runs before the worker is spawned, so the watch is there before the first write.
  file.watch = ::inotify_add_watch(impl_->inotify.native_handle(), path.c_str(), IN_MODIFY);
  if (file.watch < 0) {
    return errno_error(errno, "cannot watch the log file", path,
                       "raise fs.inotify.max_user_watches, or go without --tee");
  }
  file.sink = std::move(sink);
  impl_->files.push_back(std::move(file));
  impl_->schedule();
  return {};
}

void LogTailer::finish(std::function<void()> done) {
  impl_->done = std::move(done);
  for (auto& file : impl_->files) {
    file.may_have_more = true;  // what was written after the last event
  }
  impl_->schedule();
}

}  // namespace ddprun
