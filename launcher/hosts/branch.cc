#include "launcher/hosts/branch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "agent/output/output_pump.h"
#include "agent/process/worker_process.h"
#include "launcher/hosts/pipe_reader.h"
#include "launcher/hosts/remote_command.h"
#include "launcher/hosts/remote_failure.h"
#include "launcher/program.h"
#include "rendezvous/base/fd.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// From the end of the process to the end of its stdout, which another process may hold open.
constexpr std::chrono::seconds kLastWordsMax{2};
/// From the start of ssh to the relay's first byte. ssh's own limits end with the login, and what a
/// login runs may hang, as on a file system that does not answer.
constexpr std::chrono::seconds kBeginMax{60};

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return errno_error(errno, "cannot make a pipe", {},
                       "raise the limit of open files (ulimit -n)");
  }
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

/// For a child, which gets a description of its own.
std::string name_of(const Fd& end) {
  return fmt::format("/proc/{}/fd/{}", ::getpid(), end.get());
}

std::string variable_in(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& variable : environment) {
    if (variable.starts_with(name) && variable.substr(name.size()).starts_with('=')) {
      return variable.substr(name.size() + 1);
    }
  }
  return {};
}

}  // namespace

struct Branch::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& context, RelayStart what, std::vector<std::string> variables, Events told)
      : io(context),
        start(std::move(what)),
        environment(std::move(variables)),
        events(std::move(told)),
        timer(context) {
    for (const RelayHost& host : start.hosts) {
      unsettled.insert(host.number);
    }
  }

  /// The host that the process here leads to; the others are below it.
  [[nodiscard]] const RelayHost& head() const { return start.hosts.front(); }

  /// Asks nobody and waits for nothing: whether a host can be reached is found out by ssh, and
  /// comes back as its end. An Error is one of this machine.
  Result<void> begin() {
    SpawnRequest request;
    request.environment = environment;
    if (head().here) {
      request.path = start.executable;
      request.argv = {start.executable, std::string(kRelayWord)};
    } else {
      request.argv = ssh_words(start, head().target);
      ProgramRequest program;
      program.name = request.argv.front();
      program.search_path = variable_in(environment, "PATH");
      program.current_dir = start.directory;
      const auto found = find_program(program);
      if (!found) {
        return found.error();
      }
      request.path = found->path;
    }
    auto to = make_pipe();
    auto from = make_pipe();
    auto words = OutputPump::create_hidden(io);
    if (!to || !from || !words) {
      return !to ? to.error() : !from ? from.error() : words.error();
    }
    // The child opens them by name and gets descriptions of its own: what is set on ours (it does
    // not block) is no matter of ssh's.
    request.stdin_path = name_of(to->read);
    request.stdout_path = name_of(from->write);
    request.stderr_path = (*words)->path();
    auto spawned = WorkerProcess::spawn(io, request, [this](ExitStatus status) { ended(status); });
    if (!spawned) {
      return spawned.error();
    }
    // Our copies of the child's ends close when this function returns. Its stdin ends with our end
    // alone then, and with this process, however that dies.
    process = *std::move(spawned);
    said = *std::move(words);
    said->close_write_end();
    stdin_end = std::move(to->write);
    input = std::make_unique<Console>(io, stdin_end.get());
    output = std::make_unique<PipeReader>(
        io, std::move(from->read),
        PipeReader::Events{[this](std::string_view bytes) { take(bytes); },
                           [this] { maybe_finish(); }, events.full});
    timer.expires_after(kBeginMax);
    timer.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error && !self->finished && self->reader.state() == RelayReader::State::waiting) {
        self->is_late = true;
        self->process->signal(SIGKILL);
      }
    });
    // Before ssh has connected: so no round trip is spent on it. The pipe takes a part of it, and
    // the console keeps the rest.
    input->write(preamble() + frame_of(start));
    return {};
  }

  void take(std::string_view bytes) {
    const auto state = reader.feed(bytes, [this](std::uint8_t type, std::string_view payload) {
      const auto message = read_from_host(type, payload);
      // A message about a host that is settled, or is none of this branch, is no message of ours.
      if (!message || !unsettled.contains(host_of(*message))) {
        unreadable = true;
        return false;
      }
      tell(*message);
      return true;
    });
    // What comes after it cannot be understood. Its end is the end of the branch, and says why.
    if (unreadable || state == RelayReader::State::broken ||
        state == RelayReader::State::other_version) {
      process->signal(SIGKILL);
    }
  }

  void tell(const FromHost& message) {
    if (!std::holds_alternative<HostOutput>(message)) {
      unsettled.erase(host_of(message));
    }
    events.on_message(message);
  }

  /// Its output may still lie in the pipe, or wait for a console that takes no more.
  void ended(ExitStatus how) {
    status = how;
    wait_for_last_words();
    maybe_finish();
  }

  void wait_for_last_words() {
    timer.expires_after(kLastWordsMax);
    timer.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (error || self->finished) {
        return;
      }
      if (self->output->is_paused()) {
        self->wait_for_last_words();
      } else {
        self->finish();
      }
    });
  }

  void maybe_finish() {
    if (status && output->is_at_end()) {
      finish();
    }
  }

  /// `output` may be the caller, so it stays until the branch goes.
  void finish() {
    if (std::exchange(finished, true)) {
      return;
    }
    timer.cancel();
    // A relay that has told of all its hosts ends, too, and then ssh: nothing is to be said of
    // that.
    const RemoteEnd end{.target = head().here ? "" : head().target,
                        .executable = start.executable,
                        .status = *status,
                        .said = said->tail(),
                        .state = unreadable ? RelayReader::State::broken : reader.state(),
                        .version = reader.version(),
                        .noise = reader.noise(),
                        .is_late = is_late};
    lose_all(remote_failure(end));
  }

  /// All hosts of which no end was reported; the others than the head for its sake.
  void lose_all(const Error& why) {
    const std::set<std::uint32_t> lost = std::exchange(unsettled, {});
    for (const std::uint32_t host : lost) {
      events.on_message(HostLost{
          host, host == head().number
                    ? why
                    : Error{"it was to be reached through " + head().target + ", which failed", "",
                            "name a host that works first, or raise --fan-out"}});
    }
    // Posted, since the owner may destroy the branch in it, which calls from inside of its parts.
    asio::post(io, [self = shared_from_this()] {
      if (const auto tell_end = std::exchange(self->events.on_end, nullptr)) {
        tell_end();
      }
    });
  }

  asio::io_context& io;
  RelayStart start;
  std::vector<std::string> environment;
  Events events;
  asio::steady_timer timer;
  RelayReader reader{kFromHostFrameBytesMax, true};
  std::set<std::uint32_t> unsettled;
  std::unique_ptr<WorkerProcess> process;
  std::unique_ptr<OutputPump> said;  // on its stderr
  Fd stdin_end;
  std::unique_ptr<Console> input;
  std::unique_ptr<PipeReader> output;
  std::optional<ExitStatus> status;
  bool unreadable = false;
  bool is_late = false;  ///< nothing came of it in kBeginMax
  bool finished = false;
};

Branch::Branch(asio::io_context& io, RelayStart start, std::vector<std::string> environment,
               Events events)
    : impl_(
          std::make_shared<Impl>(io, std::move(start), std::move(environment), std::move(events))) {
  if (const auto begun = impl_->begin(); !begun) {
    // On the loop: the caller has not got this object yet.
    asio::post(io, [impl = impl_, why = begun.error()] {
      if (!std::exchange(impl->finished, true)) {
        impl->lose_all(why);
      }
    });
  }
}

Branch::~Branch() {
  // What is posted, or waits for a timer, keeps the Impl and finds it finished.
  impl_->finished = true;
  impl_->events.on_end = nullptr;
  impl_->timer.cancel();
  impl_->output.reset();
  impl_->process.reset();
}

void Branch::signal(int number) {
  // Behind the start in the same pipe: a relay reads them in this order, also when it begins later.
  if (impl_->input) {
    impl_->input->write(frame_of(RelaySignal{number}));
  }
}

void Branch::hang_up() {
  // The console has a descriptor of its own for the same pipe: its reader sees an end without both.
  impl_->input.reset();
  impl_->stdin_end.reset();
  // An ssh that still connects does not look at its stdin.
  if (impl_->process && impl_->reader.state() == RelayReader::State::waiting) {
    impl_->process->signal(SIGKILL);
  }
}

}  // namespace ddprun
