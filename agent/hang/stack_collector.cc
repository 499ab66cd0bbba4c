#include "agent/hang/stack_collector.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent/failure_evidence.h"
#include "agent/hang/thread_states.h"
#include "agent/process/process_tree.h"
#include "agent/process/worker_environment.h"
#include "agent/process/worker_process.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

/// A thread that runs answers within microseconds; one inside the kernel does not at all.
constexpr std::chrono::milliseconds kThreadPatience{100};
/// The answer is a number in shared memory, which wakes nobody.
constexpr std::chrono::milliseconds kLookAgain{1};
constexpr std::size_t kThreadsAskedMax = 64;

void append(const std::string& path, std::string_view text) {
  if (path.empty()) {
    return;
  }
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  while (file && !text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return;  // a full disk: the frames that are shown do not come from the file
    }
    text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
  }
}

/// As execvp(3) searches, but the tool is then executed by its path.
std::string on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view directory = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(directory.size() + 1, rest.size()));
    std::string file = std::string(directory) + "/" + name;
    if (!directory.empty() && ::access(file.c_str(), X_OK) == 0) {
      return file;
    }
  }
  return {};
}

bool is_python(pid_t pid) {
  const std::string executable = executable_of(pid);
  return executable.substr(executable.rfind('/') + 1).starts_with("python");
}

/// The arguments of a tool for this process; empty: there is none.
std::vector<std::string> tool_for(pid_t pid) {
  const std::string number = std::to_string(pid);
  if (is_python(pid)) {
    // Else its own fault handler tells; gdb would read PyTorch's symbols for many seconds.
    const std::string spy = on_path("py-spy");
    return spy.empty() ? std::vector<std::string>()
                       : std::vector<std::string>{spy, "dump", "--pid", number};
  }
  if (const std::string stack = on_path("eu-stack"); !stack.empty()) {
    return {stack, "-p", number};
  }
  // -nx, since a .gdbinit may do anything; no debuginfod, since a download takes longer than
  // kStackPatience.
  if (const std::string gdb = on_path("gdb"); !gdb.empty()) {
    return {gdb,
            "-p",
            number,
            "-batch",
            "-nx",
            "-iex",
            "set debuginfod enabled off",
            "-ex",
            "thread apply all backtrace 32"};
  }
  return {};
}

}  // namespace

struct StackCollector::Impl : std::enable_shared_from_this<StackCollector::Impl> {
  struct Asked {
    StackTarget target;
    std::vector<pid_t> threads;  ///< still to be asked, the next one last
    std::uint64_t taken_before = 0;
    std::optional<Clock::time_point> until;  ///< of the one that was asked
    std::string main_thread;                 ///< its state, for one that cannot answer
    std::unique_ptr<WorkerProcess> tool;
    bool tool_runs = false;
    bool answered = false;  ///< it wrote its stacks itself
  };

  Impl(asio::io_context& the_io, std::function<void(std::vector<NewestFrames>)> then)
      : io(the_io), timer(the_io), done(std::move(then)), until(Clock::now() + kStackPatience) {}

  void begin(std::vector<StackTarget> targets) {
    for (StackTarget& target : targets) {
      Asked one;
      const std::string threads = describe_threads(target.pid);
      one.main_thread = threads.substr(0, threads.find('\n'));
      append(target.path, fmt::format("rank {}, pid {}: {}\n\n{}", target.rank, target.pid,
                                      target.why, threads));
      const auto stat = read_proc_stat(target.pid);
      // A process that is stopped or inside the kernel answers no signal: it would use up the time
      // of the others.
      const bool reacts = stat && stat->state != 'T' && stat->state != 't' && stat->state != 'D';
      if (reacts && signal_of(target) != 0) {
        // The handler appends behind stack_bytes, so a new collection begins at 0.
        target.channel->page().stack_bytes = 0;
        one.threads = threads_of(target.pid);
        one.threads.resize(std::min(one.threads.size(), kThreadsAskedMax));
        std::reverse(one.threads.begin(), one.threads.end());
      }
      one.target = std::move(target);
      asked.push_back(std::move(one));
    }
    look();
  }

  static int signal_of(const StackTarget& target) {
    const auto number = target.channel == nullptr ? 0 : target.channel->page().stack_signal.load();
    // The page is the worker's to write: nothing but a real-time signal, which ends no other.
    return number >= 34 && number <= 64 ? static_cast<int>(number) : 0;
  }

  /// False once nothing is left to be asked of it.
  bool ask(Asked& one, Clock::time_point now) {
    const ProgressPage& page = one.target.channel->page();
    if (one.until && page.stacks_taken.load() == one.taken_before && now < *one.until) {
      return true;
    }
    one.until.reset();
    if (one.threads.empty() || signal_of(one.target) == 0) {
      return false;
    }
    const pid_t thread = one.threads.back();
    one.threads.pop_back();
    one.taken_before = page.stacks_taken.load();
    one.until = now + kThreadPatience;
    // One thread at a time: all of them write to one room, one behind the other.
    ::syscall(SYS_tgkill, one.target.pid, thread, signal_of(one.target));
    return true;
  }

  void look() {
    const auto now = Clock::now();
    bool all_asked = true;
    for (Asked& one : asked) {
      if (one.target.channel != nullptr && now < until && ask(one, now)) {
        all_asked = false;
      }
    }
    // Tools come after the handlers: a debugger stops its process, which then answers nothing.
    if (all_asked && !tools_begun) {
      tools_begun = true;
      write_answers();
      begin_tools();
    }
    const bool tools_run =
        std::any_of(asked.begin(), asked.end(), [](const Asked& one) { return one.tool_runs; });
    if (now >= until || (all_asked && !tools_run)) {
      finish();
      return;
    }
    // An answer is a store to shared memory, so it is looked for; the end of a tool wakes the loop
    // by itself.
    timer.expires_after(all_asked
                            ? std::chrono::milliseconds(
                                  until - now > kThreadPatience ? kThreadPatience : kLookAgain)
                            : kLookAgain);
    timer.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      if (const auto self = weak.lock(); self && !error) {
        self->look();
      }
    });
  }

  void write_answers() {
    for (Asked& one : asked) {
      std::string text;
      if (one.target.channel != nullptr) {
        const auto room = one.target.channel->stacks();
        const auto size = one.target.channel->page().stack_bytes.load();
        text.assign(room.data(), std::min<std::size_t>(size, room.size()));
      }
      if (!text.empty()) {
        append(one.target.path, "\nstacks, newest frame first:\n" + text);
      }
      one.answered = !text.empty();
      const std::string frames = newest_frames(text, kStackBytesMax);
      newest.push_back(frames.empty() ? one.main_thread : frames);
    }
  }

  void begin_tools() {
    for (Asked& one : asked) {
      const auto arguments = one.target.path.empty() || one.answered ? std::vector<std::string>()
                                                                     : tool_for(one.target.pid);
      if (arguments.empty()) {
        if (!one.answered) {
          append(one.target.path,
                 is_python(one.target.pid)
                     ? "\npy-spy would show its Python frames, and is not on PATH\n"
                     : "\neu-stack or gdb would show its frames; neither is on PATH\n");
        }
        continue;
      }
      append(one.target.path, "\n" + arguments.front() + ":\n");
      SpawnRequest request;
      request.path = arguments.front();
      request.argv = arguments;
      request.environment = own_environment();
      request.stdout_path = one.target.path;
      request.stderr_path = "/dev/null";
      // As a worker: it leads a session, dies with the agent, and is ended with all that it
      // started.
      auto tool = WorkerProcess::spawn(io, request, [this, &one](ExitStatus) {
        one.tool_runs = false;
        timer.cancel();
        // Not from within this handler: finish() destroys the very process whose end it reports.
        asio::post(io, [weak = weak_from_this()] {
          if (const auto self = weak.lock(); self && !self->over) {
            self->look();
          }
        });
      });
      if (tool) {
        one.tool = std::move(*tool);
        one.tool_runs = true;
      }
    }
  }

  void finish() {
    if (std::exchange(over, true)) {
      return;
    }
    timer.cancel();
    for (Asked& one : asked) {
      one.tool.reset();  // a process does not end while a debugger holds it
    }
    asio::post(io, [self = shared_from_this()] {
      if (self->done) {
        std::exchange(self->done, nullptr)(std::move(self->newest));
      }
    });
  }

  asio::io_context& io;
  asio::steady_timer timer;
  std::function<void(std::vector<NewestFrames>)> done;
  Clock::time_point until;
  std::vector<Asked> asked;
  std::vector<NewestFrames> newest;
  bool tools_begun = false;
  bool over = false;
};

StackCollector::StackCollector(asio::io_context& io, std::vector<StackTarget> targets,
                               std::function<void(std::vector<NewestFrames>)> done)
    : impl_(std::make_shared<Impl>(io, std::move(done))) {
  impl_->begin(std::move(targets));
}

StackCollector::~StackCollector() {
  impl_->over = true;
  impl_->done = nullptr;
  impl_->timer.cancel();
  for (auto& one : impl_->asked) {
    one.tool.reset();
  }
}

}  // namespace ddprun
