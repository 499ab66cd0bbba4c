#include "rendezvous/control/event_log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace ddprun {
namespace {

/// A line that a crash cut short shall not run into the next one.
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
  // A FIFO without a reader is an error and no wait.
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
  line.insert(0, torn_ ? "\n" : "");
  line += '\n';
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) {
    return errno;
  }
  torn_ = static_cast<std::size_t>(written) < line.size();
  return torn_ ? ENOSPC : 0;
}

}  // namespace ddprun
