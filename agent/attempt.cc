#include "agent/attempt.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <optional>
#include <utility>

#include "agent/failure_evidence.h"
#include "agent/hang/collective_position.h"
#include "agent/hang/process_usage.h"
#include "agent/hang/thread_states.h"
#include "agent/host/host.h"
#include "agent/process/process_tree.h"
#include "agent/process/stop_plan.h"
#include "agent/process/worker_environment.h"
#include "rendezvous/base/check.h"
#include "rendezvous/membership/incident.h"

namespace ddprun {

struct Attempt::Worker {
  int local_rank = 0;
  WorkerLogs logs;
  std::optional<ProgressChannel> progress;
  std::unique_ptr<WorkerProcess> process;
  std::string known_reason;
  bool asked_for_stack = false;
  bool dies_of_term = false;  ///< looked up when it was sent SIGTERM
  bool told_failure = false;  ///< had written its error file by then
  std::string stack;
  std::optional<ExitStatus> exit;
  std::chrono::steady_clock::time_point ended;
  std::chrono::sys_time<std::chrono::microseconds> ended_wall{};
};

Attempt::Attempt(boost::asio::io_context& io, const JobSpec& spec, const LogLayout& layout,
                 Consoles consoles, World world, std::string node, WarmPool* warm)
    : io_(io),
      spec_(spec),
      layout_(layout),
      world_(std::move(world)),
      output_(io, spec, layout, consoles, world_, [this] { notify_all(SIGWINCH); }),
      node_(std::move(node)),
      warm_(warm),
      assigned_(std::chrono::steady_clock::now()) {}

Attempt::~Attempt() = default;

Result<void> Attempt::start(const OnExit& on_exit) {
  if (auto made = layout_.make_attempt(world_.attempt, spec_.local_world_size); !made) {
    return made;
  }
  if (auto begun = output_.begin(); !begun) {
    return begun;
  }
  // Read once for all workers; the path of the timers' FIFO is in it by now.
  const auto inherited = own_environment();
  for (int local_rank = 0; local_rank < spec_.local_world_size; ++local_rank) {
    workers_.push_back(std::make_unique<Worker>());
    if (auto spawned = spawn(local_rank, inherited, on_exit); !spawned) {
      workers_.clear();  // kills those that run
      return spawned;
    }
  }
  return {};
}

Result<void> Attempt::spawn(int local_rank, const std::vector<std::string>& inherited,
                            const OnExit& on_exit) {
  Worker& worker = *workers_.back();
  worker.local_rank = local_rank;
  worker.logs = layout_.worker(spec_.logs, world_.attempt, local_rank);
  // Each worker gets a page, also one without the runtime: whether it is used shows only later.
  auto channel = ProgressChannel::create();
  if (!channel) {
    return channel.error();
  }
  worker.progress.emplace(std::move(*channel));

  SpawnRequest request;
  request.path = spec_.program.path;
  request.argv = worker_argv(spec_.program, local_rank);
  request.descriptor_limit = spec_.descriptor_limit;
  auto environment = worker_environment(
      inherited, spec_,
      {world_, local_rank, worker.logs.error_file, worker.progress->path(), network_interface_});
  if (!environment) {
    return environment.error();
  }
  request.environment = std::move(*environment);
  if (auto prepared = output_.prepare(local_rank, worker.logs, request); !prepared) {
    return prepared;
  }
  // `worker` is on the heap, and lives longer than its process, which calls this.
  const auto ended = [&worker, on_exit](ExitStatus exit) {
    worker.ended = std::chrono::steady_clock::now();
    worker.exit = exit;
    worker.ended_wall =
        std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    on_exit(worker.local_rank, exit);
  };
  // Null from a spare that is not ready or does not answer: then the worker starts in the plain
  // way.
  if (warm_ != nullptr) {
    worker.process = warm_->take(local_rank, request, ended);
  }
  if (!worker.process) {
    auto process = WorkerProcess::spawn(io_, request, ended);
    if (!process) {
      return process.error();
    }
    worker.process = std::move(*process);
  }
  // Only now: without its write end a relay would end before the worker has opened its own.
  output_.spawned(local_rank);
  return {};
}

bool Attempt::obeys() const {
  std::vector<Obedience> running;
  for (const auto& worker : workers_) {
    if (worker->process->running()) {
      const ProgressPage& page = worker->progress->page();
      const bool leaves = page.left.load() != 0;  // told before us, and about to end by itself
      running.push_back(leaves ? Obedience::obeys : page.obedience.load());
    }
  }
  return all_obey(running);
}

bool Attempt::left_alone() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& worker) {
    return worker->progress->page().left.load() == ProgressPage::kLeftAlone;
  });
}

/// Read from /proc at each order, since a program may set its handlers at any time.
bool Attempt::all_catch(int signal) const {
  return std::all_of(workers_.begin(), workers_.end(), [signal](const auto& worker) {
    return !worker->process->running() || catches(worker->process->pid(), signal);
  });
}

void Attempt::order_save() {
  for (const auto& worker : workers_) {
    // A flag in shared memory: the worker looks at it between two steps, and no step is torn.
    worker->progress->page().save_now = 1;
  }
}

/// The kernel signals the foreground group of the session that a terminal controls, and a worker's
/// terminal controls none. So its group gets the signal from here.
void Attempt::notify_all(int number) {
  for (const auto& worker : workers_) {
    if (worker->process) {
      worker->process->notify(number);
    }
  }
}

void Attempt::signal_all(int number, bool fences) {
  const timespec signalled = coarse_time();
  for (const auto& worker : workers_) {
    if (worker->process && worker->process->running()) {
      // With its fault handler Python prints its stack on SIGABRT; on SIGTERM it would end without
      // a word (docs/hangs.md).
      const bool tells_stack = number == SIGTERM && worker->asked_for_stack &&
                               worker->progress->page().stack_signal.load() == 0 &&
                               catches(worker->process->pid(), SIGABRT) &&
                               !catches(worker->process->pid(), SIGTERM);
      if (number == SIGTERM) {
        worker->dies_of_term = !catches(worker->process->pid(), SIGTERM);
        // Before the signal: ddp::Preemption takes an unmarked SIGTERM for a scheduler's order to
        // save.
        worker->progress->page().being_ended = 1;
      }
      worker->process->signal(tells_stack ? SIGABRT : number);
    }
  }
  if (number == SIGTERM && !fences) {
    for (const auto& worker : workers_) {
      worker->told_failure = was_written_before(signalled, worker->logs.error_file);
    }
  }
}

bool Attempt::ended_unasked(int local_rank) const {
  const auto& process = workers_.at(static_cast<std::size_t>(local_rank))->process;
  return process && process->ended_unasked();
}

std::vector<WorkerSigns> Attempt::signs() const {
  std::vector<WorkerSigns> all;
  for (const auto& worker : workers_) {
    WorkerSigns signs;
    const ProgressPage& page = worker->progress->page();
    signs.runs = worker->process && worker->process->running();
    // An attached page is not enough: changed_ns is set by the first sign of progress.
    signs.told = page.magic.load() == ProgressPage::kMagic && page.changed_ns.load() != 0;
    if (signs.told) {
      signs.stepped = page.steps.load() > 0;
      signs.ended = page.phase.load() == static_cast<std::uint64_t>(WorkPhase::ended);
      signs.changed_at = std::chrono::nanoseconds(page.changed_ns.load());
    } else if (signs.runs) {
      signs.cpu = cpu_time_of(worker->process->pid());
      // stderr by its last lines, stdout by the size of its file: any change will do.
      signs.output = std::hash<std::string>()(output_.stderr_tail(worker->local_rank)) +
                     growth_of_stdout(worker->logs.stdout_path);
    }
    all.push_back(signs);
  }
  return all;
}

std::vector<WorkerPosition> Attempt::positions(std::chrono::nanoseconds now) const {
  std::vector<WorkerPosition> all;
  for (const auto& worker : workers_) {
    // Bounded, since all nodes send theirs to the coordinator at the same time.
    if (worker->process && worker->process->running() && all.size() < kPositionsMax) {
      all.push_back(
          position_of(world_.base_rank + worker->local_rank, worker->progress->page(), now));
      all.back().standstill = standstill_of(worker->process->pid());
    }
  }
  return all;
}

std::vector<StackTarget> Attempt::running() const {
  std::vector<StackTarget> targets;
  for (const auto& worker : workers_) {
    if (worker->process && worker->process->running()) {
      targets.push_back({world_.base_rank + worker->local_rank, worker->process->pid(),
                         &*worker->progress, worker->logs.stacks_file});
    }
  }
  return targets;
}

std::vector<StackTarget> Attempt::stack_targets() {
  std::vector<StackTarget> targets = running();
  stacks_of_.clear();
  for (const StackTarget& target : targets) {
    stacks_of_.push_back(target.rank - world_.base_rank);
  }
  return targets;
}

/// What the workers have told stays in their pages when they have ended; the kernel's counts do
/// not.
std::vector<WorkerSnapshot> Attempt::snapshots() const {
  std::vector<WorkerSnapshot> all;
  for (const auto& worker : workers_) {
    WorkerSnapshot& shown = all.emplace_back();
    shown.rank = world_.base_rank + worker->local_rank;
    shown.local_rank = worker->local_rank;
    shown.pid = worker->process ? worker->process->pid() : 0;
    shown.exit = worker->exit;
    shown.stdout_path = worker->logs.stdout_path;
    shown.stderr_path = worker->logs.stderr_path;
    add_told(shown, worker->progress->page());
    if (!worker->exit) {
      add_usage(shown);
    }
  }
  return all;
}

std::vector<StreamTail> Attempt::output_tails() const {
  std::vector<StreamTail> all;
  for (const auto& worker : workers_) {
    for (StreamTail& tail : output_.tails(worker->local_rank)) {
      all.push_back(std::move(tail));
    }
  }
  return all;
}

void Attempt::keep_stacks(std::vector<NewestFrames> newest) {
  // By the list of stack_targets(): a worker may have ended since.
  for (std::size_t i = 0; i < stacks_of_.size(); ++i) {
    Worker& worker = *workers_[static_cast<std::size_t>(stacks_of_[i])];
    worker.asked_for_stack = true;
    worker.stack = i < newest.size() ? std::move(newest[i]) : std::string();
  }
}

std::string Attempt::survivors() const {
  std::string text;
  for (const auto& worker : workers_) {
    if (worker->process && worker->process->running()) {
      const pid_t pid = worker->process->pid();
      const std::string why = standstill_of(pid);
      text += fmt::format("{}{} (rank {}){}", text.empty() ? "process " : ", process ", pid,
                          world_.base_rank + worker->local_rank,
                          why.empty() ? "" : ", which is " + why);
    }
  }
  return text;
}

FailureRecord Attempt::record(int local_rank, ExitStatus exit, bool after_stop) const {
  DDP_CHECK(local_rank >= 0 && static_cast<std::size_t>(local_rank) < workers_.size(),
            "local rank out of range");
  Worker& worker = *workers_[static_cast<std::size_t>(local_rank)];
  WorkerEnd end{.node = node_,
                .world = world_,
                .local_rank = local_rank,
                .pid = worker.process->pid(),
                .exit = exit,
                .after_stop = after_stop,
                .dies_of_term = worker.dies_of_term,
                .told_failure = worker.told_failure,
                .known_reason = worker.known_reason};
  end.known_reason += end.known_reason.empty() ? lost_log_clause(worker.logs.stderr_path) : "";
  end.exit_time = worker.ended_wall;
  end.failure_kind = worker.progress ? worker.progress->page().failure_kind.load() : 0;
  // With --log-dir /dev/null there is no error file.
  if (!worker.logs.error_file.empty()) {
    end.error_file_path = worker.logs.error_file;
    end.error_file = read_bounded(worker.logs.error_file, kErrorFileReadMax + 1);
  }
  end.stderr_tail = output_.stderr_tail(local_rank);
  FailureRecord record = make_failure_record(std::move(end));
  if (worker.asked_for_stack) {
    // Python's own frames say more than those of its interpreter.
    const std::string python = python_frames(record.stderr_tail, kStackBytesMax);
    record.stack = python.empty() ? worker.stack : python;
    record.stacks_path = worker.logs.stacks_file;
  }
  if (after_stop && !worker.asked_for_stack && !record.own_error) {
    // It tells of our signal. Of thousands of nodes this would be hundreds of megabytes for the
    // coordinator at each restart; the files stay on this node.
    record.error_file_json.clear();
    record.stderr_tail.clear();
  }
  record.age = std::chrono::steady_clock::now() - worker.ended;
  return record;
}

void Attempt::note_reason(pid_t pid, std::string reason) {
  for (const auto& worker : workers_) {
    if (worker->process && worker->process->pid() == pid) {
      if (worker->known_reason.empty()) {
        worker->known_reason = std::move(reason);
      }
      return;
    }
  }
}

void Attempt::note_standstills() {
  for (const auto& worker : workers_) {
    if (!worker->process || !worker->process->running()) {
      continue;
    }
    const pid_t pid = worker->process->pid();
    const auto stat = read_proc_stat(pid);
    if (stat && (stat->state == 'T' || stat->state == 't')) {
      note_reason(pid, stat->state == 'T' ? "it stood still, stopped by a signal (state T)"
                                          : "it stood still under a debugger (state t)");
    } else if (stat && stat->state == 'D') {
      note_reason(pid, "it was in an uninterruptible wait (state D)");
    }
  }
}

std::vector<FailureRecord> Attempt::leavers() const {
  std::vector<FailureRecord> records;
  for (const auto& worker : workers_) {
    if (worker->exit && worker->exit->success() && records.size() < kLeaversMax) {
      FailureRecord record;
      record.node = node_;
      record.group_rank = world_.group_rank;
      record.rank = world_.base_rank + worker->local_rank;
      record.local_rank = worker->local_rank;
      record.pid = worker->process->pid();
      record.time = worker->ended_wall;
      record.age = std::chrono::steady_clock::now() - worker->ended;
      records.push_back(std::move(record));
    }
  }
  return records;
}

pid_t Attempt::pid(int local_rank) const {
  return workers_.at(static_cast<std::size_t>(local_rank))->process->pid();
}

TrainingProgress Attempt::progress() const {
  TrainingProgress told;
  std::size_t stepped = 0;
  NewestSave newest;
  for (const auto& worker : workers_) {
    const ProgressPage& page = worker->progress->page();
    if (page.magic.load() != ProgressPage::kMagic) {
      continue;
    }
    told.told = true;
    told.left = told.left || page.left.load() != 0;
    told.steps = std::max(told.steps, std::optional(static_cast<std::int64_t>(page.steps.load())));
    const auto one_less = [](std::uint64_t counter) -> std::optional<std::int64_t> {
      return counter == 0 ? std::nullopt
                          : std::optional<std::int64_t>(static_cast<std::int64_t>(counter) - 1);
    };
    const auto unit = page.numbered_by_step.load() != 0 ? SnapshotUnit::step : SnapshotUnit::epoch;
    const auto snapshot = [&](std::uint64_t counter) -> std::optional<SnapshotNumber> {
      const auto counted = one_less(counter);
      return counted ? std::optional(SnapshotNumber{unit, *counted}) : std::nullopt;
    };
    told.resumed_from =
        told.resumed_from ? told.resumed_from : snapshot(page.resumed_plus_1.load());
    told.last_epoch = told.last_epoch ? told.last_epoch : one_less(page.epoch_plus_1.load());
    if (!told.loss && page.has_loss.load() != 0) {
      told.loss = page.loss.load();
    }
    // steady_clock is CLOCK_MONOTONIC: the same clock in every process of this machine.
    const auto after_assignment = [this](std::int64_t ns) {
      return std::chrono::nanoseconds(ns) - assigned_.time_since_epoch();
    };
    if (const std::int64_t first = page.first_step_ns.load(); first != 0) {
      const auto after = after_assignment(first);
      told.first_step_after = std::max(told.first_step_after.value_or(after), after);
      ++stepped;
    }
    // The rank that saves may be any of this node's.
    if (const auto save = newest_save(page); save && save->number_plus_1 > newest.number_plus_1) {
      newest = *save;
      told.saved_after = after_assignment(save->at_ns);
      told.steps_at_save = static_cast<std::int64_t>(save->steps);
      told.saved = snapshot(save->number_plus_1);
    }
  }
  if (stepped < workers_.size() && !all_ended()) {
    told.first_step_after.reset();  // the slowest is what counts
  }
  return told;
}

bool Attempt::all_ended() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const auto& worker) { return worker->exit.has_value(); });
}

void Attempt::finish_logs(std::function<void()> done) {
  output_.finish(std::move(done));
}

}  // namespace ddprun
