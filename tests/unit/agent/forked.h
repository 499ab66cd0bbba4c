// Forked: a function that runs in a child process, with its output in our hands. All that the
// child starts inherits its stdout: so the end of that stream proves that all of them are gone.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/membership/failure.h"
#include "tests/support/event_wait.h"

namespace ddprun {

/// For Catch2's reports.
inline std::ostream& operator<<(std::ostream& out, const ExitStatus& end) {
  return out << (end.kind == ExitStatus::Kind::exited ? "exit code " : "signal ") << end.value;
}

}  // namespace ddprun

namespace ddprun::test {

class Forked {
 public:
  /// For what should take milliseconds, on a machine that may be busy with other things.
  static constexpr std::chrono::seconds kPatience{20};

  explicit Forked(const std::function<int()>& body) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      std::abort();
    }
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ < 0) {
      std::abort();  // never let kill() see a -1
    }
    if (pid_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      const int code = body();
      std::fflush(nullptr);
      ::_exit(code);
    }
    ::close(ends[1]);
    output_.reset(ends[0]);
  }
  ~Forked() {
    if (!reaped_) {
      ::kill(pid_, SIGKILL);
      (void)end();
    }
  }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }

  /// What came so far, once it has that many lines; less when the stream ends or time is up.
  std::string lines(int count) {
    read_while([&] { return std::count(text_.begin(), text_.end(), '\n') < count; }, kPatience);
    return text_;
  }

  /// True when nobody holds the stream any more; a busy machine gets more time (wait_until).
  bool all_gone_within(std::chrono::milliseconds time) {
    return wait_until(
        [this] {
          read_while([] { return true; }, std::chrono::milliseconds(1));
          return ended_;
        },
        time);
  }

  [[nodiscard]] const std::string& text() const { return text_; }

  /// Waits for the child itself.
  ExitStatus end() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
    }
    reaped_ = true;
    return WIFSIGNALED(status) ? ExitStatus{ExitStatus::Kind::signalled, WTERMSIG(status)}
                               : ExitStatus{ExitStatus::Kind::exited, WEXITSTATUS(status)};
  }

 private:
  void read_while(const std::function<bool()>& wanted, std::chrono::milliseconds time) {
    const auto deadline = std::chrono::steady_clock::now() + time;
    while (!ended_ && wanted()) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd ready{output_.get(), POLLIN, 0};
      if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) == 0) {
        return;
      }
      char buffer[4096];
      const ssize_t got = ::read(output_.get(), buffer, sizeof(buffer));
      ended_ = got == 0;
      text_.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }
  }

  pid_t pid_ = -1;
  Fd output_;
  std::string text_;
  bool ended_ = false;
  bool reaped_ = false;
};

/// At once, unlike printf, and whole.
inline void say(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) {
    ::_exit(99);
  }
}

}  // namespace ddprun::test
