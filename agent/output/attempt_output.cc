#include "agent/output/attempt_output.h"

#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "agent/failure_evidence.h"
#include "agent/output/stream_routing.h"
#include "agent/process/signals.h"

namespace ddprun {
namespace {

/// What is read of a file for its tail: progress bars and escape sequences take more than they
/// show.
constexpr std::size_t kTailFileBytesMax = 16 * kStderrTailBytesMax;

/// Empty for a stream that goes to no file.
std::string tail_of_file(const std::string& path) {
  return path.empty() ? "" : shown_tail(read_tail(path, kTailFileBytesMax), kStderrTailBytesMax);
}

/// stdout and stderr may be one terminal by two opens: the device number shows it. Their order is
/// kept only where both go through one relay.
Terminals own_terminals() {
  Terminals terminals{::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1, false};
  struct stat out {};
  struct stat err {};
  terminals.same = terminals.out && terminals.err && ::fstat(STDOUT_FILENO, &out) == 0 &&
                   ::fstat(STDERR_FILENO, &err) == 0 && out.st_rdev == err.st_rdev &&
                   out.st_dev == err.st_dev;
  return terminals;
}

/// Without folding: a teed stream through its filter alone.
OutputSink filtered_sink(LogFilter line_filter, Console& console,
                         const std::shared_ptr<FilteredLog>& log) {
  auto filter = std::make_shared<LogFilter>(std::move(line_filter));
  OutputSink sink;
  sink.console = &console;
  sink.take = [filter, log, &console](std::string_view bytes) {
    std::string shown;
    std::string matching;
    filter->feed(bytes, shown, matching);
    console.write_from(filter.get(), shown);
    if (log) {
      log->append(filter.get(), matching);
    }
  };
  sink.at_end = [filter, log, &console] {
    std::string shown;
    std::string matching;
    // Others write where this stream has ended: their lines begin with a prefix, too.
    if (filter->has_open_line()) {
      filter->feed("\n", shown, matching);
    }
    filter->finish(shown, matching);
    console.write_from(filter.get(), shown);
    if (log) {
      log->append(filter.get(), matching);
    }
  };
  return sink;
}

}  // namespace

AttemptOutput::AttemptOutput(boost::asio::io_context& io, const JobSpec& spec,
                             const LogLayout& layout, Consoles consoles, const World& world,
                             std::function<void()> on_resized)
    : io_(io),
      spec_(spec),
      layout_(layout),
      consoles_(consoles),
      world_(world),
      on_resized_(std::move(on_resized)) {
  streams_.resize(static_cast<std::size_t>(spec.local_world_size));
}

AttemptOutput::~AttemptOutput() = default;

/// All that the worker opens is settled before it exists: between clone and execve it can neither
/// allocate nor ask (spawn.cc).
Result<void> AttemptOutput::prepare(int local_rank, const WorkerLogs& logs, SpawnRequest& request) {
  request.stdout_path = logs.stdout_path;
  request.stderr_path = logs.stderr_path;
  // The worker writes a teed stream to its file and the agent reads it back: a slow console never
  // holds up the worker.
  if (logs.echo_stdout) {
    if (auto teed = tee(local_rank, teed_out, logs.stdout_path, spec_.logs.stdout_filters); !teed) {
      return teed;
    }
  }
  if (logs.echo_stderr) {
    if (auto teed = tee(local_rank, teed_err, logs.stderr_path, spec_.logs.stderr_filters); !teed) {
      return teed;
    }
  }
  return relay(local_rank, logs, request);
}

Result<void> AttemptOutput::relay(int local_rank, const WorkerLogs& logs, SpawnRequest& request) {
  Stream& stream = streams_[static_cast<std::size_t>(local_rank)];
  const Terminals terminals = own_terminals();
  const StreamPlan plan = plan_streams(logs, terminals);
  if (plan.out == StreamWay::path) {
    stream.stdout_path = logs.stdout_path;
  }
  if (plan.out == StreamWay::terminal) {
    stream.out =
        relay_terminal(local_rank, terminals.same ? relayed_err : relayed_out, STDOUT_FILENO);
    request.stdout_path = stream.out ? stream.out->path() : "";
  }
  switch (plan.err) {
    case StreamWay::terminal:
      stream.err = relay_terminal(local_rank, relayed_err, STDERR_FILENO);
      break;
    case StreamWay::terminal_of_out:
      // Where stdout got no terminal its path is empty, and stderr is inherited with it.
      stream.err_is_out = true;
      request.stderr_path = request.stdout_path;
      return {};
    case StreamWay::pipe:
    case StreamWay::hidden_pipe: {
      auto made = plan.err == StreamWay::pipe
                      ? OutputPump::create(io_, sink_for(local_rank, relayed_err))
                      : OutputPump::create_hidden(io_);
      if (!made) {
        return made.error();
      }
      // The pipe's worker end is opened by the worker itself, through its name under /proc.
      stream.err = std::move(*made);
      break;
    }
    case StreamWay::path:
      stream.stderr_path = logs.stderr_path;
      break;
    case StreamWay::inherited:
      break;
  }
  if (stream.err) {
    request.stderr_path = stream.err->path();
  }
  return {};
}

/// Null where the system has no terminals to give: the worker then writes to the real one, as it
/// would have without us.
std::unique_ptr<OutputPump> AttemptOutput::relay_terminal(int local_rank, Form form, int like) {
  OutputSink sink = sink_for(local_rank, form);
  const auto at_end = sink.at_end;
  auto made = OutputPump::create_terminal(io_, std::move(sink), like);
  if (!made) {
    if (at_end) {
      at_end();  // nobody waits for lines that do not come this way
    }
    return nullptr;
  }
  // Made with the first terminal: without one, no worker asks for its size.
  if (!window_changes_) {
    window_changes_ = std::make_unique<SignalSource>(io_, std::vector<int>{SIGWINCH},
                                                     [this](int) { follow_window_size(); });
  }
  return std::move(*made);
}

void AttemptOutput::follow_window_size() {
  for (const Stream& stream : streams_) {
    if (stream.out) {
      stream.out->copy_window_size_of(STDOUT_FILENO);
    }
    if (stream.err) {
      stream.err->copy_window_size_of(STDERR_FILENO);
    }
  }
  // After all of them have it: a program that is signalled asks for the size at once.
  on_resized_();
}

void AttemptOutput::spawned(int local_rank) {
  Stream& stream = streams_[static_cast<std::size_t>(local_rank)];
  for (const auto* relay : {&stream.out, &stream.err}) {
    if (*relay) {
      // A pipe ends when its last writer has closed it, and this process holds one write end.
      (*relay)->close_write_end();
    }
  }
}

/// The files of the lines that match are there whenever filters are, whatever comes.
Result<void> AttemptOutput::begin() {
  const auto ready = [this](Form form, const std::vector<std::string>& filters,
                            const std::string& path) -> Result<void> {
    if (!filters.empty() && !path.empty()) {
      auto log = FilteredLog::open(path);
      if (!log) {
        return log.error();
      }
      filtered_[form] = std::move(*log);
    }
    return {};
  };
  const std::string out = layout_.filtered_stdout(world_.attempt);
  if (auto done = ready(teed_out, spec_.logs.stdout_filters, out); !done) {
    return done;
  }
  const std::string err = layout_.filtered_stderr(world_.attempt);
  return ready(teed_err, spec_.logs.stderr_filters, err);
}

Result<void> AttemptOutput::tee(int local_rank, Form form, const std::string& path,
                                const std::vector<std::string>& filters) {
  // One inotify instance per attempt: fs.inotify.max_user_instances is 128 by default, for all
  // programs of a user.
  if (!follower_) {
    auto follower = LogTailer::create(io_);
    if (!follower) {
      return follower.error();
    }
    follower_ = std::move(*follower);
  }
  const auto& log = filtered_[form];
  if (!folds(form)) {
    return follower_->follow(
        path, filtered_sink(LogFilter(prefix_of({local_rank}), filters), console_of(form), log));
  }
  std::function<void(std::string_view)> to_log;
  if (log) {
    const void* stream = &streams_[static_cast<std::size_t>(local_rank)];
    to_log = [log, stream](std::string_view text) { log->append(stream, text); };
  }
  return follower_->follow(
      path, folded(form).sink(local_rank, prefix_of({local_rank}), filters, std::move(to_log)));
}

/// Relayed output has no prefix and no filter: the console shows what the worker would have written
/// to it.
OutputSink AttemptOutput::sink_for(int local_rank, Form form) {
  if (folds(form)) {
    return folded(form).sink(local_rank);
  }
  Console& console = console_of(form);
  return {[&console](std::string_view bytes) { console.write(bytes); }, nullptr, &console};
}

/// Each stream for itself: stderr may be a terminal where stdout goes to a program that reads
/// prefixes. A template of the user's is made for programs.
bool AttemptOutput::folds(Form form) const {
  if (spec_.local_world_size == 1 || spec_.logs.line_prefix_template) {
    return false;
  }
  const int fd = &console_of(form) == &consoles_.out ? STDOUT_FILENO : STDERR_FILENO;
  return spec_.logs.fold == Folding::always ||
         (spec_.logs.fold == Folding::on_terminals && ::isatty(fd) == 1);
}

FoldedConsole& AttemptOutput::folded(Form form) {
  auto& fold = folds_[form];
  if (!fold) {
    // What is relayed has no prefix, unless it speaks for several: then global ranks, the numbers
    // that people know.
    const bool prefixed = form == teed_out || form == teed_err;
    LineFold::Label label = [this, prefixed](const std::vector<int>& local_ranks) -> std::string {
      if (prefixed) {
        return prefix_of(local_ranks);
      }
      return local_ranks.size() == 1 ? "" : "[" + global_list(local_ranks) + "] ";
    };
    const auto unfinished =
        prefixed ? StreamFold::Unfinished::kept : StreamFold::Unfinished::passed;
    fold = std::make_unique<FoldedConsole>(io_, console_of(form),
                                           StreamFold(spec_.local_world_size, unfinished, label));
  }
  return *fold;
}

Console& AttemptOutput::console_of(Form form) const {
  return form == teed_out || form == relayed_out ? consoles_.out : consoles_.err;
}

std::string AttemptOutput::global_list(std::vector<int> local_ranks) const {
  for (int& rank : local_ranks) {
    rank += world_.base_rank;
  }
  return rank_list(local_ranks);
}

std::string AttemptOutput::prefix_of(const std::vector<int>& local_ranks) const {
  const auto& given = spec_.logs.line_prefix_template;
  return line_prefix(given ? &*given : nullptr, spec_.role, global_list(local_ranks),
                     rank_list(local_ranks));
}

std::string AttemptOutput::stderr_tail(int local_rank) const {
  const Stream& stream = streams_[static_cast<std::size_t>(local_rank)];
  if (const auto& relay = stream.err_is_out ? stream.out : stream.err) {
    return relay->tail();
  }
  // A stream that goes to a file has no relay; the end of the file is read when it is asked for.
  return tail_of_file(stream.stderr_path);
}

std::vector<StreamTail> AttemptOutput::tails(int local_rank) const {
  const Stream& stream = streams_[static_cast<std::size_t>(local_rank)];
  const int rank = world_.base_rank + local_rank;
  if (stream.err_is_out) {
    return {{rank, "terminal", stderr_tail(local_rank)}};
  }
  return {{rank, "stdout", stream.out ? stream.out->tail() : tail_of_file(stream.stdout_path)},
          {rank, "stderr", stderr_tail(local_rank)}};
}

void AttemptOutput::finish(std::function<void()> done) {
  // Without a teed stream there is nothing to catch up with: pipes and terminals end with their
  // last writer.
  if (!follower_) {
    done();
    return;
  }
  follower_->finish([this, done = std::move(done)] {
    // A line of this attempt never waits for its copy from the next one (docs/folding.md).
    for (const auto& fold : folds_) {
      if (fold) {
        fold->flush();
      }
    }
    done();
  });
}

}  // namespace ddprun
