// WorkerProcess: one child. Passive: it starts, it can be signalled, it tells its end once. It is
// the leader of its own session and process group, dies with the agent, and inherits nothing but
// its three standard streams.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/membership/failure.h"

namespace boost::asio {
class io_context;
}

namespace ddprun {

struct SpawnRequest {
  std::string path;                      ///< what to execute; no search
  std::vector<std::string> argv;         ///< all arguments, argv[0] first
  std::vector<std::string> environment;  ///< the whole environment, "NAME=value"
  std::string stdout_path;               ///< created or appended by the child; empty: inherited
  std::string stderr_path;               ///< the same; may equal stdout_path
  std::vector<int> descriptors{};        ///< of ours, 3, 4, ... there; at most kDescriptorsMax
  static constexpr std::size_t kDescriptorsMax = 4;
  std::uint64_t descriptor_limit = 0;  ///< soft, at most the hard one; 0: as ours
  std::string stdin_path{};            ///< opened by the child; empty: inherited
};

class WorkerProcess {
 public:
  /// An exec that fails (no such file, no permission) is an Error here, with nothing left behind.
  /// `on_exit` is called once, on the loop, after the process has been reaped.
  static Result<std::unique_ptr<WorkerProcess>> spawn(boost::asio::io_context& io,
                                                      const SpawnRequest& request,
                                                      std::function<void(ExitStatus)> on_exit);
  /// A process still running is killed with its group (SIGKILL), without a call of on_exit; the
  /// loop reaps it, or kill_descendants where the loop runs no more. Never blocks.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  [[nodiscard]] pid_t pid() const;
  [[nodiscard]] bool running() const;
  /// To the whole process group; nothing happens to a reaped process or its reused pid. A group
  /// that is stopped is continued after a signal that asks it to end (TERM, INT, HUP, QUIT, ABRT).
  void signal(int number);
  /// To the whole process group, too, for news that ends no program (SIGWINCH): ended_unasked()
  /// does not count it.
  void notify(int number);
  /// It was dead already when it got its first signal from here: whatever ended it, that did not.
  [[nodiscard]] bool ended_unasked() const;
  /// Another listener from now on, for a process that still runs as far as this object knows.
  void tell_exit_to(std::function<void(ExitStatus)> on_exit);

 private:
  struct Impl;
  explicit WorkerProcess(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ddprun
