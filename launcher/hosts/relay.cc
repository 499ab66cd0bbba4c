#include "launcher/hosts/relay.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/output/console.h"
#include "agent/process/descriptor_limit.h"
#include "agent/process/guardian.h"
#include "agent/process/orphans.h"
#include "agent/process/process_tree.h"
#include "agent/process/signals.h"
#include "agent/process/worker_process.h"
#include "launcher/exit_status.h"
#include "launcher/hosts/branches.h"
#include "launcher/hosts/passed_environment.h"
#include "launcher/hosts/pipe_reader.h"
#include "launcher/hosts/relay_message.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/file_text.h"

namespace ddprun {

namespace asio = boost::asio;

namespace {

/// From the loss of the way to the shell until nothing is left: an agent's guardian takes a second
/// at most, and so do the relays below.
constexpr std::chrono::seconds kLostMax{3};
constexpr std::chrono::seconds kRelayKillMax{1};

std::span<const char* const> own_environment() {
  std::size_t size = 0;
  while (::environ[size] != nullptr) {
    ++size;
  }
  return {::environ, size};
}

/// The loader of a new process takes a moment, in which a signal would end it by its default.
constexpr std::chrono::milliseconds kLoaderLook{2};
constexpr int kLoaderLooksMax = 500;

/// What a line of /proc/PID/status says.
std::string_view field_of(std::string_view status, std::string_view name) {
  const auto at = status.find(name);
  const auto value = at == std::string_view::npos ? at : status.find('\t', at);
  return value == std::string_view::npos
             ? std::string_view{}
             : status.substr(value + 1, status.find('\n', value) - value - 1);
}

/// Whether ddprun's own instructions run there, which hold signals (agent/process/signals.h); also
/// when the process is gone. While a guardian waits for signals the kernel shows none of these as
/// blocked (sigwaitinfo(2) unblocks them); its name tells.
bool holds_signals(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status").value_or("");
  const std::string_view digits = field_of(status, "SigBlk:");
  if (digits.empty() || field_of(status, "Name:") == kGuardianName) {
    return true;
  }
  std::uint64_t blocked = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), blocked, 16);
  return (blocked >> (SIGTERM - 1) & 1) != 0;
}

/// One of the agent's two streams on its way up.
struct AgentStream {
  std::string path;  ///< for the child
  Fd write_end;
  std::unique_ptr<PipeReader> reader;
};

class Relay {
 public:
  Relay()
      : descriptor_limit_(raise_descriptor_limit()),
        up_(io_, STDOUT_FILENO),
        signals_(io_, {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2},
                 [this](int number) { signal(number); }),
        guardian_(io_),
        timer_(io_),
        loader_timer_(io_) {
    accept_early_signals();
    if (guardian_fd() >= 0) {
      guardian_.assign(guardian_fd());
      guardian_.async_wait(asio::posix::stream_descriptor::wait_read,
                           [this](boost::system::error_code error) {
                             if (!error) {
                               end_now();
                             }
                           });
    }
    up_.write(relay_opening());
    down_ = std::make_unique<PipeReader>(
        io_, Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)),
        PipeReader::Events{[this](std::string_view bytes) { take(bytes); }, [this] { lost(); }});
  }

  int run() {
    io_.run();
    return code_;
  }

 private:
  void take(std::string_view bytes) {
    const auto state = reader_.feed(bytes, [this](std::uint8_t type, std::string_view payload) {
      auto message = read_to_relay(type, payload);
      if (!message || std::holds_alternative<RelayStart>(*message) == start_.has_value()) {
        return false;  // a second start, or a signal before the first
      }
      if (auto* start = std::get_if<RelayStart>(&*message)) {
        start_ = std::move(*start);
        begin();
      } else {
        signal(std::get<RelaySignal>(*message).number);
      }
      return true;
    });
    // A stream that cannot be read is as good as none: nothing could be told to this relay any
    // more. Whoever is there sees our version, too, and says so.
    if (state == RelayReader::State::broken || state == RelayReader::State::other_version) {
      lost();
    }
  }

  /// Never waits: readers look at full() before they read what is to be sent.
  void send(const FromHost& message) { up_.write(frame_of(message)); }
  [[nodiscard]] Console* full() { return up_.full() ? &up_ : nullptr; }

  void begin() {
    const RelayHost& own = start_->hosts.front();
    environment_ = merged_environment(own_environment(), start_->environment);
    if (const auto begun = begin_agent(own); !begun) {
      send(HostLost{own.number, begun.error()});
      agent_told_ = true;
    }
    RelayStart below = *start_;
    below.hosts.erase(below.hosts.begin());
    // The agent's environment holds what was passed; to hosts below goes that alone, once more.
    branches_.emplace(io_, below, environment_,
                      Branch::Events{[this](const FromHost& message) { send(message); },
                                     [this] { maybe_end(); }, [this] { return full(); }});
    maybe_end();
  }

  /// With the command line that a user would have written on this host.
  Result<void> begin_agent(const RelayHost& own) {
    if (::chdir(start_->directory.c_str()) != 0) {
      return errno_error(errno, "its agent cannot work in " + start_->directory, "",
                         "the job works in the same folder on every host");
    }
    SpawnRequest request;
    request.path = start_->executable;
    request.argv = {start_->executable};
    request.environment = environment_;
    request.descriptor_limit = descriptor_limit_;
    request.stdin_path = "/dev/null";
    for (const std::vector<std::string>* words : {&std::as_const(start_->options), &own.words}) {
      request.argv.insert(request.argv.end(), words->begin(), words->end());
    }
    request.argv.emplace_back("--");
    request.argv.insert(request.argv.end(), start_->program.begin(), start_->program.end());
    // Two pipes, so that both streams come out apart. Their order to each other is lost, as it is
    // with any two pipes.
    for (const bool is_stderr : {false, true}) {
      if (const auto opened = open_stream(own.number, is_stderr); !opened) {
        return opened.error();
      }
    }
    request.stdout_path = streams_[0].path;
    request.stderr_path = streams_[1].path;
    auto spawned = WorkerProcess::spawn(io_, request, [this](ExitStatus status) {
      status_ = status;
      maybe_end();
    });
    if (!spawned) {
      return spawned.error();
    }
    agent_ = *std::move(spawned);
    for (AgentStream& stream : streams_) {
      stream.write_end.reset();
    }
    return {};
  }

  Result<void> open_stream(std::uint32_t host, bool is_stderr) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return errno_error(errno, "cannot make a pipe for the agent", {}, "raise ulimit -n");
    }
    AgentStream& stream = streams_[is_stderr ? 1 : 0];
    stream.write_end.reset(ends[1]);
    stream.path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ends[1]);
    stream.reader = std::make_unique<PipeReader>(
        io_, Fd(ends[0]),
        PipeReader::Events{[this, host, is_stderr](std::string_view bytes) {
                             send(HostOutput{host, is_stderr, std::string(bytes)});
                           },
                           [this] { maybe_end(); }, [this] { return full(); }});
    return {};
  }

  /// To the agent's guardian, which passes it on, and down. One that comes before there is an agent
  /// has nobody to go to.
  void signal(int number) {
    if (agent_) {
      for_agent_.push_back(number);
      signal_agent(kLoaderLooksMax);
    }
    if (branches_) {
      branches_->signal(number);
    }
  }

  /// A signal may come in the same moment as the start: when it was waiting while ssh connected.
  void signal_agent(int looks) {
    if (looks > 0 && !holds_signals(agent_->pid())) {
      loader_timer_.expires_after(kLoaderLook);
      loader_timer_.async_wait([this, looks](boost::system::error_code error) {
        if (!error) {
          signal_agent(looks - 1);
        }
      });
      return;
    }
    for (const int number : std::exchange(for_agent_, {})) {
      agent_->signal(number);
    }
  }

  /// The agent's last bytes go before its end.
  void maybe_end() {
    // Its guardian has ended all that the agent had started, so nobody else holds the pipes open.
    const bool agent_ended =
        status_ && streams_[0].reader->is_at_end() && streams_[1].reader->is_at_end();
    if (agent_ended && !std::exchange(agent_told_, true)) {
      const bool exited = status_->kind == ExitStatus::Kind::exited;
      send(HostEnded{start_->hosts.front().number,
                     exited ? status_->value : exit_code_of_signal(status_->value)});
    }
    if (agent_told_ && branches_ && branches_->all_ended() && !std::exchange(ending_, true)) {
      up_.on_flushed([this] {
        code_ = kExitSuccess;
        io_.stop();
      });
    }
  }

  /// The agent dies by SIGKILL, so that its guardian ends its workers, and then its connections in
  /// order: the other nodes see at once that it is gone, and that no worker of it is left.
  void lost() {
    if (std::exchange(hung_up_, true)) {
      return;
    }
    // The hosts below first: their relays do the same at the same time.
    if (branches_) {
      branches_->hang_up();
    }
    if (agent_ && agent_->running()) {
      const auto agents = ProcessTree(ProcessTree::best_source()).children(agent_->pid());
      for (const pid_t agent : agents) {
        ::kill(agent, SIGKILL);
      }
      // The guardian has not forked yet.
      if (agents.empty()) {
        agent_->signal(SIGKILL);
      }
    } else if (!branches_) {
      end_now();
      return;
    }
    timer_.expires_after(kLostMax);
    timer_.async_wait([this](boost::system::error_code error) {
      if (!error) {
        end_now();
      }
    });
  }

  /// The other nodes see broken connections then, and not an order of the end.
  void end_now() {
    (void)kill_descendants({}, kRelayKillMax);
    io_.stop();
  }

  asio::io_context io_;
  std::uint64_t descriptor_limit_;
  Console up_;
  SignalSource signals_;
  asio::posix::stream_descriptor guardian_;
  asio::steady_timer timer_;
  asio::steady_timer loader_timer_;
  std::unique_ptr<PipeReader> down_;
  RelayReader reader_{kToRelayFrameBytesMax, false};
  std::optional<RelayStart> start_;
  std::vector<std::string> environment_;
  std::array<AgentStream, 2> streams_;  // stdout, stderr
  std::unique_ptr<WorkerProcess> agent_;
  std::vector<int> for_agent_;  // signals that it is to get
  std::optional<ExitStatus> status_;
  std::optional<Branches> branches_;
  bool agent_told_ = false;
  bool hung_up_ = false;
  bool ending_ = false;
  int code_ = kExitFailure;
};

}  // namespace

int run_relay() {
  return Relay().run();
}

}  // namespace ddprun
