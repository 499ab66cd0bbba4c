#include "rendezvous/control/event_log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun {
namespace {

/// A crash may have cut the last line short. The next one must not be appended to that half:
/// readers skip a line that is no JSON, and would skip both.
bool ends_torn(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  struct stat status {};
  char last = '\n';
  return file && ::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_size > 0 && ::pread(file.get(), &last, 1, status.st_size - 1) == 1 &&
         last != '\n';
}

}  // namespace

Result<std::shared_ptr<EventLogFile>> EventLogFile::open(const std::string& path,
                                                         std::string node) {
  if (path.empty()) {
    return std::shared_ptr<EventLogFile>();
  }
  // O_APPEND: agents of one host that share the path write behind each other.
  // O_NONBLOCK: a FIFO without a reader is an error, where open(2) would wait for one. O_NOCTTY:
  // the path may be a terminal, which must not become that of the job.
  Fd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
               0644));
  if (!fd) {
    return errno_error(errno, "cannot write the event log", "--event-log '" + path + "'",
                       "name a file in a directory that can be written");
  }
  return std::shared_ptr<EventLogFile>(
      new EventLogFile(std::move(fd), path, std::move(node), ends_torn(path)));
}

int EventLogFile::append(std::string line) {
  // One write(2): other agents' lines come before it or after it, never in between.
  line.insert(0, torn_ ? "\n" : "");
  line += '\n';
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) {
    return errno;
  }
  // The kernel writes a part where the disk becomes full, or the file as large as it may be; which
  // of both, only the next write says.
  std::string_view rest = std::string_view(line).substr(static_cast<std::size_t>(written));
  int why = 0;
  while (!rest.empty() && why == 0) {
    written = ::write(fd_.get(), rest.data(), rest.size());
    why = written < 0 && errno != EINTR ? errno : 0;
    rest.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
  torn_ = !rest.empty();
  return why;
}

}  // namespace ddprun
