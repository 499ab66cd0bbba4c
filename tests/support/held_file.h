// HeldFile: a pipe with a name in the place of a file. The program that reads it stands still there
// until the test lets it go on, so that something can happen at that very moment of its life.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "rendezvous/base/fd.h"
#include "tests/support/event_wait.h"

namespace ddprun::test {

class HeldFile {
 public:
  explicit HeldFile(std::string path) : path_(std::move(path)) {
    if (::mkfifo(path_.c_str(), 0600) != 0) {
      throw std::runtime_error("cannot make a pipe at " + path_);
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }
  /// True once a program reads it.
  [[nodiscard]] bool await_reader() {
    // fifo(7): ENXIO as long as there is none.
    return wait_until([this] {
      writer_.reset(::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      return static_cast<bool>(writer_);
    });
  }
  /// The reader finds its end.
  void let_go() { writer_.reset(); }

 private:
  std::string path_;
  Fd writer_;
};

}  // namespace ddprun::test
