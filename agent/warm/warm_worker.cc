#include "agent/warm/warm_worker.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "agent/warm/warm_environment.h"
#include "agent/warm/warm_script.h"
#include "agent/warm/zip_module.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/fd.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// What a waiting process says is a word and a sentence.
constexpr std::size_t kMessageBytesMax = 1024;
/// It answers before it does anything else, in well under a millisecond. The loop stands still
/// meanwhile, so one that was stopped or swapped out is not waited for; nor are the others then.
constexpr int kAnswerBoundMs = 1000;

/// A file without a name, filled, and read from its beginning.
Result<Fd> memory_file(const char* name, std::string_view content) {
  Fd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) {
    return errno_error(errno, "cannot make a file in memory", name);
  }
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written < 0) {
      return errno_error(errno, "cannot write a file in memory", name);
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  // The receiver shares this description, its position included.
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

/// What the interpreter will execute: nobody else may write to it.
Result<Fd> hook_file() {
  auto file = memory_file("ddprun-warm", module_archive("sitecustomize.py", warm_script()));
  if (file && ::fcntl(file->get(), F_ADD_SEALS,
                      F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errno_error(errno, "cannot seal a file in memory");
  }
  return file;
}

std::string name_of(const Fd& fd) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), fd.get());
}

/// As a worker started now would open it; our own where it would inherit.
Result<Fd> output(const std::string& path, int inherited) {
  Fd fd(path.empty()
            ? ::fcntl(inherited, F_DUPFD_CLOEXEC, 0)
            : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0644));
  if (!fd) {
    return errno_error(errno, "cannot open its output", path);
  }
  return fd;
}

/// unix(7): one message carries all three, so the receiver has all or nothing.
bool send_descriptors(int socket, const std::array<int, 3>& descriptors) {
  char word[] = "go";
  iovec part{word, sizeof word};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(header), descriptors.data(), sizeof descriptors);
  return ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) > 0;
}

}  // namespace

struct WarmWorker::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, OnChange tell) : control(io), on_change(std::move(tell)) {}

  void change(State to, const std::string& why) {
    if (closed || state == State::unfit || state == State::ended) {
      return;
    }
    state = to;
    // The callback may destroy the WarmWorker.
    const auto keep = shared_from_this();
    on_change(to, why);
  }

  /// The next message; empty when there is none.
  std::string receive() {
    std::array<char, kMessageBytesMax> bytes{};
    const ssize_t size = ::recv(control.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    at_end = size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR);
    return {bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }

  void wait() {
    control.async_wait(asio::posix::stream_descriptor::wait_read,
                       [self = shared_from_this()](boost::system::error_code error) {
                         if (!error && !self->closed) {
                           self->on_readable();
                         }
                       });
  }

  /// Also without a message. What woke the loop may have been the end of the trial: its
  /// descriptor's place in Asio's reactor goes to the next one at once, and with it an event that
  /// is on its way.
  void on_readable() {
    (void)take_message();
    if (!closed && !at_end) {
      wait();
    }  // the end itself comes by its own way
  }

  /// False when there is none.
  bool take_message() {
    const std::string message = closed ? std::string() : receive();
    if (message == "hooked") {
      change(State::hooked, {});
    } else if (message == "ready") {
      change(State::ready, {});
    } else if (message.starts_with("no ")) {
      change(State::unfit, message.substr(3));
    }
    return !message.empty();
  }

  asio::posix::stream_descriptor control;
  OnChange on_change;
  std::unique_ptr<WorkerProcess> process;
  std::vector<std::string> argv;
  pid_t pid = -1;
  State state = State::importing;
  bool closed = false;  // nobody listens any more
  bool at_end = false;  // it says no more
};

Result<std::unique_ptr<WarmWorker>> WarmWorker::start(asio::io_context& io, SpawnRequest request,
                                                      OnChange on_change) {
  auto hook = hook_file();
  auto out = memory_file("stdout", {});
  auto err = memory_file("stderr", {});
  for (const auto* file : {&hook, &out, &err}) {
    if (!*file) {
      return file->error();
    }
  }
  std::array<int, 2> ends{};
  // SOCK_SEQPACKET keeps messages whole, and ends when the other process does.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return errno_error(errno, "cannot make a pair of sockets", {},
                       "raise the limit of open files (ulimit -n)");
  }
  auto impl = std::make_shared<Impl>(io, std::move(on_change));
  // Owned by the Impl from here on: an error below closes it.
  impl->control.assign(ends[0]);
  // Closed in this process after the spawn: then recv() shows the end of the other one.
  const Fd theirs(ends[1]);
  // What imports print is kept in memory, and comes out at the program's first line.
  request.stdout_path = name_of(*out);
  request.stderr_path = name_of(*err);
  static_assert(kWarmControlFd == 3 && kWarmModuleFd == 4, "the order of the next line");
  request.descriptors = {theirs.get(), hook->get()};
  auto process = WorkerProcess::spawn(io, request, [impl = std::weak_ptr(impl)](ExitStatus exit) {
    if (const auto self = impl.lock()) {
      // Its end may be noticed before the last words that it sent.
      while (self->take_message()) {
      }
      const bool exited = exit.kind == ExitStatus::Kind::exited;
      self->change(State::ended, (exited ? "it exited with code " : "it was ended by signal ") +
                                     std::to_string(exit.value));
    }
  });
  if (!process) {
    return process.error();
  }
  impl->process = std::move(*process);
  impl->pid = impl->process->pid();
  impl->argv = std::move(request.argv);
  impl->wait();
  return std::make_unique<WarmWorker>(std::move(impl));
}

WarmWorker::WarmWorker(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

WarmWorker::~WarmWorker() {
  impl_->closed = true;
  // This kills: no spare outlives its pool.
  impl_->process.reset();
  boost::system::error_code ignored;
  impl_->control.close(ignored);
}

pid_t WarmWorker::pid() const {
  return impl_->pid;
}

WarmWorker::State WarmWorker::state() const {
  return impl_->state;
}

Result<std::unique_ptr<WorkerProcess>> WarmWorker::become(const SpawnRequest& worker,
                                                          std::function<void(ExitStatus)> on_exit) {
  DDP_CHECK(impl_->state == State::ready && impl_->process, "only a ready one, and once");
  impl_->closed = true;
  // Every return below without `process` kills it: no instruction of the program has run in it.
  std::unique_ptr<WorkerProcess> process = std::move(impl_->process);
  // The interpreter has read its arguments already: others cannot be handed over.
  if (worker.argv != impl_->argv) {
    return Error{"it was started with other arguments", {}, {}};
  }
  const int socket = impl_->control.native_handle();
  auto environment = memory_file("environment", environment_text(worker.environment));
  auto out = output(worker.stdout_path, STDOUT_FILENO);
  auto err = output(worker.stderr_path, STDERR_FILENO);
  for (const auto* file : {&environment, &out, &err}) {
    if (!*file) {
      return file->error();
    }
  }
  if (!send_descriptors(socket, {environment->get(), out->get(), err->get()})) {
    return errno_error(errno, "it cannot be reached");
  }
  // The agent's loop stands still here. The answer means that the process has all three descriptors
  // and goes on as the worker.
  pollfd answer{socket, POLLIN, 0};
  if (::poll(&answer, 1, kAnswerBoundMs) != 1) {
    return Error{"it does not answer", "process " + std::to_string(impl_->pid), {}};
  }
  const std::string message = impl_->receive();
  if (message != "took") {
    return Error{message.starts_with("no ") ? message.substr(3) : "it has ended", {}, {}};
  }
  // The pool has no part in it any more: its end is now that of a worker.
  process->tell_exit_to(std::move(on_exit));
  return process;
}

}  // namespace ddprun
