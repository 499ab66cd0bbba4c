#include "agent/process/worker_process.h"

#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

// Boost.Process 2 with std::filesystem: nothing to link. 1.81 forgets these two includes then.
#define BOOST_PROCESS_USE_STD_FS
#include <boost/optional.hpp>
#include <boost/type_traits.hpp>
//
#include <boost/asio/io_context.hpp>
#include <boost/process/v2/process.hpp>

#include "agent/process/process_tree.h"
#include "agent/process/spawn.h"

namespace ddprun {
namespace {

namespace process = boost::process::v2;
using Executor = boost::asio::io_context::executor_type;
/// Does not own: unlike basic_process it neither kills nor blocks when it ends, and its
/// async_wait hands out the status as waitpid gave it, in which exit 9 and SIGKILL differ.
using Handle = process::basic_process_handle<Executor>;

/// A launcher in the shape that Boost.Process 2 gives them (executor and error code in, process
/// out), with one SpawnRequest in place of exe, argv and initializers. Its default launcher copies
/// the parent, runs the parent's exit handlers when exec fails, and knows neither session nor
/// PDEATHSIG.
struct SessionLauncher {
  /// What to tell the user, when the call gave an error code.
  std::optional<Error> failure;

  process::basic_process<Executor> operator()(const Executor& executor, process::error_code& error,
                                              const SpawnRequest& request) {
    auto launched = launch_session(request);
    if (!launched) {
      failure = launched.error();
      error = boost::system::errc::make_error_code(boost::system::errc::no_child_process);
      return process::basic_process<Executor>{executor};
    }
    const pid_t pid = launched->pid;
    try {
      process::basic_process<Executor> started{executor, pid, launched->pidfd.get()};
      (void)launched->pidfd.release();
      return started;
    } catch (const boost::system::system_error& refused) {
      // Without a watch its end would go unnoticed, so the process is not kept.
      ::killpg(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      failure = Error{std::string("cannot watch the new process: ") + refused.what(), request.path,
                      "raise fs.epoll.max_user_watches"};
      error = refused.code();
      return process::basic_process<Executor>{executor};
    }
  }
};

ExitStatus to_exit_status(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return {ExitStatus::Kind::signalled, WTERMSIG(wait_status)};
  }
  return {ExitStatus::Kind::exited, WEXITSTATUS(wait_status)};
}

/// A dead process keeps its pid, and with it the name of its group, until it is reaped. One that
/// exits counts as dead: its sockets may be closed already, and no signal changes its exit code.
enum class Life { runs, dead, reaped };
Life life_of(pid_t pid) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    return Life::reaped;
  }
  if (info.si_pid != 0) {
    return Life::dead;
  }
  const auto stat = read_proc_stat(pid);
  if (!stat || !stat->exiting) {
    return Life::runs;
  }
  // A main thread that is a zombie may have left the others running. Or all of them exit, and the
  // last one frees the memory: with PyTorch in it that takes long enough to be signalled meanwhile.
  return stat->state != 'Z' || all_threads_exit(pid) ? Life::dead : Life::runs;
}

/// systemd does the same: a stopped process would otherwise sleep through its notice to end.
bool asks_to_end(int number) {
  return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT ||
         number == SIGABRT;
}

}  // namespace

/// Kept alive by the pending wait, so that a process whose owner is gone is reaped all the same.
struct WorkerProcess::Impl {
  Handle handle;
  std::function<void(ExitStatus)> on_exit;
  bool running = true;
  bool signalled = false;
  bool ended_unasked = false;

  void ended(const boost::system::error_code& error, int wait_status) {
    if (error == boost::asio::error::operation_aborted) {
      return;
    }
    running = false;
    // ECHILD: kill_descendants was told not to spare it, and was faster.
    const ExitStatus status =
        error ? ExitStatus{ExitStatus::Kind::signalled, SIGKILL} : to_exit_status(wait_status);
    if (const auto tell = std::exchange(on_exit, nullptr)) {
      tell(status);
    }
  }
};

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::spawn(
    boost::asio::io_context& io, const SpawnRequest& request,
    std::function<void(ExitStatus)> on_exit) {
  SessionLauncher launch;
  process::error_code error;
  auto started = launch(io.get_executor(), error, request);
  if (error) {
    return *launch.failure;
  }
  // ~basic_process kills one pid, not its group, and then blocks: so take the handle out at once.
  auto handle = started.detach();  // allowed: Boost's word for it; no thread, no coroutine
  auto impl = std::make_shared<Impl>(Impl{std::move(handle), std::move(on_exit)});
  impl->handle.async_wait([impl](const boost::system::error_code& wait_error, int wait_status) {
    impl->ended(wait_error, wait_status);
  });
  auto* const worker = new WorkerProcess(std::move(impl));  // allowed: its constructor is private
  return std::unique_ptr<WorkerProcess>(worker);
}

WorkerProcess::WorkerProcess(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

WorkerProcess::~WorkerProcess() {
  impl_->on_exit = nullptr;
  signal(SIGKILL);
}

pid_t WorkerProcess::pid() const {
  return impl_->handle.id();
}

bool WorkerProcess::running() const {
  return impl_->running;
}

bool WorkerProcess::ended_unasked() const {
  return impl_->ended_unasked;
}

void WorkerProcess::tell_exit_to(std::function<void(ExitStatus)> on_exit) {
  impl_->on_exit = std::move(on_exit);
}

void WorkerProcess::signal(int number) {
  const Life life = impl_->running ? life_of(pid()) : Life::reaped;
  if (life == Life::reaped) {
    return;
  }
  // Decided at the first signal: a process that is dead by then was ended by something else.
  impl_->ended_unasked = impl_->ended_unasked || (life == Life::dead && !impl_->signalled);
  impl_->signalled = true;
  ::killpg(pid(), number);
  if (asks_to_end(number)) {
    ::killpg(pid(), SIGCONT);
  }
}

void WorkerProcess::notify(int number) {
  // As long as nobody has reaped it, the pid and its group are its own.
  if (impl_->running && life_of(pid()) != Life::reaped) {
    ::killpg(pid(), number);
  }
}

}  // namespace ddprun
