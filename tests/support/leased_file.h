// LeasedFile: a file that nobody can open until the test lets go of it, so that something can
// happen while a program waits for its data, as it may for a file system on the network. HeldFile
// is the same for programs that read a pipe.
#pragma once

#include <fcntl.h>

#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/result.h"
#include "tests/support/event_wait.h"

namespace ddprun::test {

class LeasedFile {
 public:
  /// Makes an empty file there.
  explicit LeasedFile(std::string path)
      : path_(std::move(path)),
        fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
    // fcntl(2), "Leases": opens by others wait, as long as /proc/sys/fs/lease-break-time says. The
    // signal that tells of them would end this process; SIGURG is one that is ignored.
    if (!fd_ || ::fcntl(fd_.get(), F_SETSIG, SIGURG) != 0 ||
        ::fcntl(fd_.get(), F_SETLEASE, F_WRLCK) != 0) {
      throw std::runtime_error(errno_error(errno, "cannot lease the file", path_).sentence());
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// True once a program waits to open it.
  [[nodiscard]] bool await_reader() const {
    return wait_until([this] { return ::fcntl(fd_.get(), F_GETLEASE) != F_WRLCK; });
  }

 private:
  std::string path_;
  Fd fd_;
};

}  // namespace ddprun::test
