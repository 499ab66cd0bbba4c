#include "agent/agent.h"

#include <spdlog/logger.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <optional>
#include <utility>
#include <vector>

#include "agent/attempt.h"
#include "agent/attempt_store.h"
#include "agent/follower_options.h"
#include "agent/hang/hang_handler.h"
#include "agent/hang/progress_poller.h"
#include "agent/host/compared_variables.h"
#include "agent/host/environment_facts.h"
#include "agent/host/host.h"
#include "agent/host/oom_detector.h"
#include "agent/output/console.h"
#include "agent/output/log_layout.h"
#include "agent/output/status_display.h"
#include "agent/process/file_timer.h"
#include "agent/process/guardian.h"
#include "agent/process/orphans.h"
#include "agent/process/process_tree.h"
#include "agent/process/signals.h"
#include "agent/process/stop_plan.h"
#include "agent/process/worker_environment.h"
#include "agent/process/worker_group.h"
#include "agent/unable.h"
#include "agent/warm/warm_pool.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/control/event_log_file.h"
#include "rendezvous/control/follower.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;

/// How long leftovers of an attempt may take to die; a process in an uninterruptible sleep does
/// not hold up the next attempt for longer.
constexpr std::chrono::milliseconds kDescendantsBound{1'000};

/// From SIGKILL until a worker that is still there is given up, and its node with it (I-16).
constexpr std::chrono::milliseconds kUnkillableBound{5'000};

/// A signal that comes again within this time is the same wish: a scheduler signals every process
/// of its step, and so this one and its guardian, which forwards it.
constexpr std::chrono::milliseconds kOneWish{500};

class Agent {
 public:
  Agent(const JobSpec& spec, LogLayout layout, std::shared_ptr<EventLogFile> event_log,
        std::shared_ptr<spdlog::logger> log)
      : spec_(spec),
        layout_(std::move(layout)),
        event_log_(std::move(event_log)),
        log_(std::move(log)),
        environment_(compared_facts(spec)),
        node_(describe(spec, environment_)),
        out_(io_, STDOUT_FILENO),
        err_(io_, STDERR_FILENO),
        board_(io_, err_, STDERR_FILENO, log_),
        signals_(io_, signals_for(spec), [this](int number) { on_signal(number); }),
        guardian_(io_),
        deadline_(io_),
        patience_(io_),
        time_up_(io_),
        hang_(io_, spec.hang_timeouts,
              [this](std::vector<WorkerPosition> positions, std::string why) {
                CoordinatorClient* const client = follower_.client();
                if (client != nullptr && group_.state() == group::State::running) {
                  log_->warn("{}", why);
                  client->workers_hung(group_.attempt(), std::move(positions), std::move(why));
                }
              }),
        warm_(spec.warm_workers ? std::make_unique<WarmPool>(io_, spec, log_) : nullptr),
        follower_(io_, follower_options(spec, node_, environment_, event_log_), follower_hooks(),
                  log_) {}

  Result<JobSummary> run() {
    watch_guardian();
    watch_deadline();
    if (const auto begun = begin_file_timers(); !begun) {
      return begun.error();
    }
    follower_.start();
    io_.run();
    hold_back(signals_for(spec_));
    DDP_CHECK(outcome_.has_value(), "the loop ended before the job did");
    return *outcome_;
  }

 private:
  // ---- file timers --------------------------------------------------------------------------

  Result<void> begin_file_timers() {
    if (!spec_.timer_file) {
      return {};
    }
    auto timers = FileTimer::create(
        io_, *spec_.timer_file, [this](const ExpiredTimer& timer) { on_expired(timer); }, log_);
    if (!timers) {
      return timers.error();
    }
    file_timers_ = std::move(*timers);
    // Workers inherit our environment, here as under torchrun.
    ::setenv(env::kTimerFile, file_timers_->path().c_str(), 1);
    return {};
  }

  void on_expired(const ExpiredTimer& timer) {
    const std::string what = "its own timer '" + timer.scope + "' expired";
    if (timer.signal <= 0) {
      log_->warn("process {}: {}; it set no signal to be sent", timer.pid, what);
      return;
    }
    // Anybody may write to the FIFO, and a pid may be another process by now.
    if (!descends_from(timer.pid, ::getpid())) {
      log_->info("process {} is none of this job's (any more): its timer is forgotten", timer.pid);
      return;
    }
    log_->warn("process {}: {}; it gets {}", timer.pid, what, signal_name(timer.signal));
    if (attempt_) {
      attempt_->note_reason(timer.pid, what);
    }
    ::kill(timer.pid, timer.signal);
  }

  // ---- the coordinator ----------------------------------------------------------------------

  FollowerHooks follower_hooks() {
    const bool is_static = spec_.backend == RendezvousBackend::static_ranks;
    FollowerHooks hooks;
    hooks.assign = [this](const World& world) { on_assign(world); };
    hooks.stop = [this](const message::Stop& order) { on_stop(order); };
    hooks.finish = [this](const JobSummary& summary) { end(summary); };
    hooks.waiting = [this](const RendezvousStatus& table) { board_.show(table); };
    hooks.lost = [this](const Error& why) { fence(why); };
    hooks.failed = [this](const Error& why) { end(why); };
    hooks.coordinator.open_store = [this](AttemptNumber) { return store_.open(); };
    if (is_static) {
      hooks.coordinator.foreign_connection = [this](Fd connection, const std::string& first_bytes) {
        store_.adopt(std::move(connection), first_bytes);
      };
    }
    return hooks;
  }

  // ---- orders -------------------------------------------------------------------------------

  void on_assign(const World& world) {
    if (outcome_) {
      return;
    }
    board_.clear();
    log_->info("attempt {}: node {} of {}, ranks {} to {} of {}, store {}:{}",
               number(world.attempt), world.group_rank, world.group_world_size, world.base_rank,
               world.base_rank + spec_.local_world_size - 1, world.world_size, world.master_addr,
               world.master_port);
    retire_attempt();
    draining_ = preempting_ = false;
    memory_.begin();
    if (file_timers_) {
      file_timers_->forget_all();
    }
    attempt_ = std::make_unique<Attempt>(io_, spec_, layout_, Consoles{out_, err_}, world,
                                         node_.host_name, warm_.get());
    if (world.group_world_size > 1) {
      const Coordinator* own = follower_.coordinator();
      attempt_->use_network(network_interface_of(
          own != nullptr ? own->common_address() : follower_.client()->local_address()));
    }
    const auto started = attempt_->start([this](int local_rank, ExitStatus exit) {
      apply(group_.handle(
          group::WorkerExited{local_rank, exit, attempt_->ended_unasked(local_rank)}));
    });
    if (!started) {
      attempt_.reset();
      (void)kill_descendants({}, kDescendantsBound);
      follower_.client()->give_up(started.error());
      if (follower_.coordinator() == nullptr) {
        // What failed lies with this node (its disk is full, say): the others go on, wait for
        // another, or end where they are too few (I-27).
        end(started.error());
      }
      return;
    }
    if (warm_) {
      warm_->attempt_started(world);
    }
    progress_.begin([this] { return attempt_->progress(); },
                    [this, attempt = world.attempt](const TrainingProgress& told) {
                      if (CoordinatorClient* client = follower_.client()) {
                        client->workers_progress(attempt, told);
                      }
                    });
    apply(group_.handle(group::Started{world.attempt, spec_.local_world_size}));
    hang_.watch(*attempt_);
  }

  void on_stop(const message::Stop& order) {
    log_->info("attempt {} stops: {}", number(order.attempt), order.reason);
    if (!attempt_ || attempt_->world().attempt != order.attempt) {
      // Never started here: nothing of it is left.
      follower_.client()->workers_stopped(order.attempt, {}, {});
      return;
    }
    if (order.how == StopHow::hang) {
      follower_.client()->workers_hung(
          order.attempt,
          hang_.look_closely(*attempt_,
                             [this] { apply(group_.handle(group::StopOrdered{SIGTERM})); }),
          order.reason);
      return;
    }
    const StopPlan plan =
        plan_stop(order.how, order.signal,
                  {attempt_->obeys(), order.signal != 0 && attempt_->all_catch(order.signal),
                   attempt_->all_catch(SIGTERM), spec_.shutdown_timeout, spec_.preempt_grace});
    preempting_ = preempting_ || order.how == StopHow::preempt;
    if (plan.order_save && group_.running_workers() > 0) {
      log_->info("the workers are ordered to save and leave");
      draining_ = true;
      attempt_->order_save();
      patience_.expires_after(plan.grace);
      patience_.async_wait([this, grace = plan.grace](boost::system::error_code error) {
        if (!error) {
          log_->warn("workers have not left {} s after they were ordered to save: ending them",
                     std::chrono::duration<double>(grace).count());
          apply(group_.handle(group::StopOrdered{SIGTERM}));
        }
      });
      return;
    }
    grace_ = plan.grace;
    apply(group_.handle(group::StopOrdered{plan.signal}));
  }

  void on_signal(int number) {
    const auto now = std::chrono::steady_clock::now();
    if (number == last_signal_ && now - last_signal_at_ < kOneWish) {
      return;
    }
    last_signal_ = number;
    last_signal_at_ = now;
    log_->info("got {}", signal_name(number));
    if (number == SIGUSR2) {
      if (follower_.client() != nullptr) {
        follower_.client()->request_stop(number, StopWish::leave);
      }
      return;
    }
    if (std::exchange(stop_asked_, true)) {
      // The second one means now: nobody is waited for, not even the coordinator.
      stop_asked_twice_ = true;
      apply(group_.handle(group::KillOrdered{}));
      end_as_asked(Verdict::stopped, number);
      return;
    }
    ask_for_end(number);
  }

  /// `signal` 0: the deadline has come.
  void ask_for_end(int signal) {
    const bool preempt = signal == 0 || signal == SIGTERM || signal == SIGUSR1;
    asked_for_ = preempt ? Verdict::preempted : Verdict::stopped;
    asked_by_ = signal;
    if (follower_.client() == nullptr) {
      end_as_asked(asked_for_, signal);
      return;
    }
    follower_.client()->request_stop(signal, preempt ? StopWish::preempt : StopWish::end);
    if (!preempt) {
      apply(group_.handle(group::StopOrdered{signal}));
    }
  }

  void end_as_asked(Verdict verdict, int signal) {
    JobSummary summary;
    summary.verdict = verdict;
    summary.stop_signal = signal;
    summary.reason =
        signal == 0 ? "its deadline has come" : signal_name(signal) + " was sent to this agent";
    end(summary);
  }

  void watch_deadline() {
    if (!spec_.deadline) {
      return;
    }
    time_up_.expires_after(*spec_.deadline);
    time_up_.async_wait([this](boost::system::error_code error) {
      if (!error && !outcome_ && !std::exchange(stop_asked_, true)) {
        log_->info("the deadline has come");
        ask_for_end(0);
      }
    });
  }

  void watch_guardian() {
    if (guardian_fd() < 0) {
      return;
    }
    guardian_.assign(guardian_fd());
    guardian_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [this](boost::system::error_code error) {
                           if (!error) {
                             guardian_died_ = true;
                             apply(group_.handle(group::KillOrdered{}));
                             end(Error{"the process that watches the agent was killed", {}, {}});
                           }
                         });
  }

  // ---- the worker group's commands -----------------------------------------------------------

  void apply(const std::vector<group::Command>& commands) {
    for (const auto& command : commands) {
      std::visit([this](const auto& c) { obey(c); }, command);
    }
    wind_down_when_idle();
  }

  void obey(const group::ReportStarted&) {
    if (CoordinatorClient* client = follower_.client()) {
      client->workers_started(group_.attempt());
    }
  }

  void obey(const group::ReportFailure& failure) {
    if (CoordinatorClient* client = follower_.client()) {
      client->worker_failed(group_.attempt(), record_of(failure.local_rank));
    }
  }

  void obey(const group::SignalWorkers& order) {
    attempt_->note_standstills();
    attempt_->signal_all(order.signal);
    if (order.signal == SIGKILL) {
      deadline_.expires_after(kUnkillableBound);
      deadline_.async_wait([this](boost::system::error_code error) {
        if (!error && group_.running_workers() > 0) {
          const Error why{"SIGKILL does not end " + attempt_->survivors(),
                          {},
                          "this node leaves the job; look after its devices and file systems"};
          (void)group_.handle(group::GaveUp{});
          end(why);
        }
      });
    }
  }

  void obey(const group::ArmDeadline&) {
    const auto grace = std::exchange(grace_, spec_.shutdown_timeout);
    deadline_.expires_after(grace);
    deadline_.async_wait([this, grace](boost::system::error_code error) {
      if (!error) {
        log_->warn("workers still run {} s after they were asked to stop: killing them",
                   std::chrono::duration<double>(grace).count());
        apply(group_.handle(group::DeadlinePassed{}));
      }
    });
  }

  void obey(const group::DisarmDeadline&) { deadline_.cancel(); }

  void obey(const group::ReportFinished&) {
    if (draining_) {
      apply(group_.handle(group::StopOrdered{SIGTERM}));  // as ordered: that is what is reported
      return;
    }
    progress_.end();
    if (CoordinatorClient* client = follower_.client()) {
      client->workers_finished(group_.attempt(), attempt_->progress());
    }
  }

  void obey(const group::KillDescendants&) {
    const auto keep = warm_ ? warm_->pids() : std::vector<pid_t>();
    const auto killed = kill_descendants(keep, kDescendantsBound);
    if (!killed) {
      log_->error("{}", killed.error().sentence());
    } else if (*killed > 0) {
      log_->info("killed {} processes that the workers had left behind", *killed);
    }
  }

  void obey(const group::ReportStopped&) {
    progress_.end();
    std::vector<FailureRecord> records = attempt_->leavers();
    for (FailureRecord& one : records) {
      one.after_stop = group_.workers()[static_cast<std::size_t>(one.local_rank)].after_stop;
    }
    for (std::size_t i = 0; i < group_.workers().size(); ++i) {
      if (!group_.workers()[i].exit.success()) {
        records.push_back(record_of(static_cast<int>(i)));
      }
    }
    CoordinatorClient* client = follower_.client();
    if (client != nullptr && !guardian_died_) {
      client->workers_stopped(group_.attempt(), std::move(records),
                              with_ending(attempt_->progress(), group_.workers(), preempting_));
    }
    patience_.cancel();
    quiet_when_lost();
  }

  FailureRecord record_of(int local_rank) {
    const group::Worker& worker = group_.workers()[static_cast<std::size_t>(local_rank)];
    auto memory = OomDetector::Verdict::not_memory;
    if (!worker.after_stop) {
      const bool sigkill = worker.exit == ExitStatus{ExitStatus::Kind::signalled, SIGKILL};
      const pid_t pid = attempt_->pid(local_rank);
      memory = memory_.verdict(pid);
      attempt_->note_reason(pid, memory_clause(memory, sigkill));
    }
    FailureRecord record = attempt_->record(local_rank, worker.exit, worker.after_stop);
    record.out_of_memory = memory == OomDetector::Verdict::killed_by_limit ||
                           memory == OomDetector::Verdict::killed_by_machine;
    return record;
  }

  /// The old attempt shows the rest of its logs while the new one runs.
  void retire_attempt() {
    progress_.end();
    if (!attempt_) {
      return;
    }
    hang_.forget();
    retired_.push_back(std::move(attempt_));
    Attempt* const old = retired_.back().get();
    old->finish_logs([this, old] {
      std::erase_if(retired_, [old](const auto& attempt) { return attempt.get() == old; });
      wind_down_when_idle();
    });
  }

  // ---- the end ------------------------------------------------------------------------------

  /// The job is over for this node. What still runs is stopped first: an agent without its
  /// coordinator fences itself, so that two attempts never overlap.
  void end(Result<JobSummary> outcome) {
    if (outcome_) {
      return;
    }
    outcome_ = std::move(outcome);
    follower_.give_up();
    board_.clear();
    warm_.reset();
    apply(group_.handle(group::StopOrdered{SIGTERM}));
  }

  /// Without its coordinator this node must be quiet before the others can be assigned a new world:
  /// the client gives up a tenth of the heartbeat timeout earlier than the coordinator does. Half
  /// of that is for the kernel to end what is killed, and for clocks that do not go alike.
  void fence(const Error& why) {
    log_->info("{}", why.sentence());
    board_.clear();
    coordinator_lost_ = true;
    if (outcome_) {
      return;
    }
    if (stop_asked_) {  // this node was to end anyway; it looks for nobody
      end_as_asked(asked_for_, asked_by_);
      return;
    }
    apply(group_.handle(group::StopOrdered{SIGTERM}));
    if (group_.running_workers() > 0) {
      deadline_.expires_after(std::min(spec_.shutdown_timeout, spec_.heartbeat_timeout / 20));
      deadline_.async_wait([this](boost::system::error_code error) {
        if (!error) {
          apply(group_.handle(group::DeadlinePassed{}));
        }
      });
    }
    quiet_when_lost();
  }

  /// No process of the attempt is left here: others may take the job over, this node too.
  void quiet_when_lost() {
    if (coordinator_lost_ && !outcome_ && group_.running_workers() == 0) {
      coordinator_lost_ = false;
      // Not from inside the order that led here.
      asio::post(io_, [this] { follower_.quiet(); });
    }
  }

  void wind_down_when_idle() {
    if (!outcome_ || winding_down_ || group_.running_workers() > 0) {
      return;
    }
    if (attempt_) {
      retire_attempt();  // comes back here when its logs are shown, maybe at once
    }
    if (winding_down_ || !(retired_.empty() || stop_is_urgent())) {
      return;
    }
    winding_down_ = true;
    (void)kill_descendants({}, kDescendantsBound);
    if (stop_is_urgent()) {
      io_.stop();  // not even a console that nobody reads may hold us
      return;
    }
    out_.on_flushed([this] {
      err_.on_flushed([this] {
        Coordinator* const own = follower_.coordinator();
        if (own != nullptr && *outcome_ && !own->drained()) {
          own->on_drained([this] { io_.stop(); });
        } else {
          io_.stop();
        }
      });
    });
  }

  /// After a second signal nobody is waited for.
  [[nodiscard]] bool stop_is_urgent() const { return stop_asked_twice_; }

  const JobSpec& spec_;
  LogLayout layout_;
  std::shared_ptr<EventLogFile> event_log_;  ///< null: none is asked for
  std::shared_ptr<spdlog::logger> log_;
  NodeEnvironment environment_;
  NodeDescription node_;
  asio::io_context io_{1};
  Console out_;
  Console err_;
  StatusDisplay board_;
  SignalSource signals_;
  asio::posix::stream_descriptor guardian_;
  asio::steady_timer deadline_;
  asio::steady_timer patience_;  ///< with workers that were ordered to save
  asio::steady_timer time_up_;   ///< --deadline
  std::chrono::milliseconds grace_{spec_.shutdown_timeout};  ///< of the next stop
  HangResponse hang_;
  std::unique_ptr<WarmPool> warm_;
  group::WorkerGroup group_;
  OomDetector memory_{read_file, in_first_pid_namespace()};
  AttemptStore store_{io_, spec_};
  std::unique_ptr<FileTimer> file_timers_;
  std::unique_ptr<Attempt> attempt_;
  std::vector<std::unique_ptr<Attempt>> retired_;
  ProgressReport progress_{io_};
  Follower follower_;
  bool coordinator_lost_ = false;  ///< and workers may still run
  bool guardian_died_ =
      false;                 ///< exit without reporting: the coordinator counts this node as lost
  bool draining_ = false;    ///< the workers of this attempt were ordered to save and leave
  bool preempting_ = false;  ///< or signalled to, since the job ends
  int last_signal_ = 0;
  std::chrono::steady_clock::time_point last_signal_at_;
  bool stop_asked_ = false;
  Verdict asked_for_ = Verdict::stopped;  ///< valid when asked
  int asked_by_ = 0;
  bool stop_asked_twice_ = false;
  bool winding_down_ = false;
  std::optional<Result<JobSummary>> outcome_;
};

}  // namespace

Result<JobSummary> run_agent(const JobSpec& spec, std::shared_ptr<spdlog::logger> log) {
  if (auto subreaper = become_subreaper(); !subreaper) {
    return subreaper.error();
  }
  if (sets_omp_threads(own_environment(), spec)) {
    log->info("OMP_NUM_THREADS is not set: each worker gets 1, so that they share the processors");
  }
  auto layout = LogLayout::create(spec.logs, spec.job_id);
  if (!layout) {
    tell_unable(spec, layout.error(), log);
    return layout.error();
  }
  std::shared_ptr<EventLogFile> event_log;
  if (!spec.event_log.empty()) {
    auto opened = EventLogFile::open(spec.event_log, host_name());
    if (!opened) {
      return opened.error();
    }
    event_log = std::move(*opened);
  }
  Agent agent(spec, std::move(*layout), std::move(event_log), std::move(log));
  return agent.run();
}

}  // namespace ddprun
