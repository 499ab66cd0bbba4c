// ChildProcess: one program under test, as a user's shell would start it. Its two output streams
// go to files, so that a program that prints a lot never waits for us, and a test can wait for a
// line of it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/fd.h"
#include "tests/support/event_wait.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {

struct ChildRequest {
  /// The first word: a path when it has a slash; otherwise looked for beside the built programs
  /// (bin_dir.h), then on PATH.
  std::vector<std::string> argv = {};
  /// Added to this process's environment; an empty value removes the variable.
  std::map<std::string, std::string> environment = {};
  std::string directory = {};          ///< working directory; empty: ours
  std::string network_namespace = {};  ///< a name of NetNamespaces; empty: ours
  std::string host_name = {};          ///< in a UTS namespace of its own; needs root; empty: ours
  /// A file for stdin; empty: /dev/null.
  std::string stdin_path = {};
};

/// How it ended: exactly one of the two is set.
struct Ended {
  std::optional<int> exit_code;
  std::optional<int> signal;
  friend bool operator==(const Ended&, const Ended&) = default;
};

class ChildProcess {
 public:
  /// Starts it. A program that cannot be executed exits with 127, as in a shell.
  explicit ChildProcess(const ChildRequest& request);
  /// Kills whatever still runs of it and below it, and reaps it.
  ~ChildProcess();
  ChildProcess(ChildProcess&&) = delete;
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// Of the program itself. Still valid (as a number) after the end.
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool running();
  /// To the program alone, not to its group. Nothing happens once it is reaped.
  void signal(int number);
  /// How it ended; nothing when it still runs after `timeout`.
  std::optional<Ended> wait(std::chrono::milliseconds timeout = kPatience);
  /// wait() for the exit code; -<signal> when a signal ended it, kStillRuns when nothing did.
  static constexpr int kStillRuns = -1000;
  int exit_code(std::chrono::milliseconds timeout = kPatience);

  [[nodiscard]] std::string out() const { return read_file(out_path()); }
  [[nodiscard]] std::string err() const { return read_file(err_path()); }
  [[nodiscard]] std::string out_path() const { return streams_.file("stdout"); }
  [[nodiscard]] std::string err_path() const { return streams_.file("stderr"); }
  /// True as soon as the stream holds `text` `times` times; false too when the program has ended
  /// without it.
  [[nodiscard]] bool wait_for_out(const std::string& text, int times = 1,
                                  std::chrono::milliseconds timeout = kPatience);
  [[nodiscard]] bool wait_for_err(const std::string& text, int times = 1,
                                  std::chrono::milliseconds timeout = kPatience);
  /// Both streams with their names: INFO(child.report()) makes a failed test tell the story.
  [[nodiscard]] std::string report() const;

 private:
  bool wait_for(const std::string& path, const std::string& text, int times,
                std::chrono::milliseconds timeout);

  TempDir streams_;
  std::string command_;
  pid_t pid_ = -1;
  Fd pidfd_;
  std::optional<Ended> ended_;
};

/// Starts it, waits for its end: what a test of a command line needs.
struct Finished {
  int exit_code = 0;
  std::string out;
  std::string err;
};
Finished run(const ChildRequest& request, std::chrono::milliseconds timeout = kPatience);

/// Where the program would be found (see ChildRequest::argv); as it is when nowhere.
std::string find_program(const std::string& name);

}  // namespace ddprun::test
