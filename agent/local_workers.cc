#include "agent/local_workers.h"

#include <spdlog/logger.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <csignal>
#include <utility>
#include <variant>
#include <vector>

#include "agent/hang/hang_handler.h"
#include "agent/hang/process_usage.h"
#include "agent/hang/progress_poller.h"
#include "agent/hang/stack_collector.h"
#include "agent/host/host.h"
#include "agent/host/oom_detector.h"
#include "agent/process/file_timer.h"
#include "agent/process/orphans.h"
#include "agent/process/process_tree.h"
#include "agent/process/stop_plan.h"
#include "agent/process/worker_group.h"
#include "agent/warm/warm_pool.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/file_text.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/contract/environment.h"
#include "rendezvous/control/coordinator_client.h"

namespace ddprun {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// How long leftovers of an attempt may take to die; a process in an uninterruptible sleep does
/// not hold up the next for longer. The agent says nothing meanwhile: less than a lease can spare.
milliseconds descendants_bound(const JobSpec& spec) {
  constexpr milliseconds kMost{1'000};
  return spec.heartbeat_timeout.count() > 0 ? std::min(kMost, spec.heartbeat_timeout / 4) : kMost;
}

}  // namespace

struct LocalWorkers::Impl {
  Impl(asio::io_context& the_io, const JobSpec& the_spec, const LogLayout& the_layout,
       Consoles the_consoles, std::string the_node, LocalWorkersHooks the_hooks,
       std::shared_ptr<spdlog::logger> the_log)
      : io(the_io),
        spec(the_spec),
        layout(the_layout),
        consoles(the_consoles),
        node(std::move(the_node)),
        hooks(std::move(the_hooks)),
        log(std::move(the_log)),
        deadline(the_io),
        hang(the_io, the_spec.hang_timeouts,
             [this](std::vector<WorkerPosition> positions, std::string why) {
               CoordinatorClient* const coordinator = hooks.coordinator();
               if (coordinator != nullptr && group.is_working()) {
                 log->warn("{}", why);
                 coordinator->workers_hung(group.attempt(), std::move(positions), std::move(why));
               }
             }),
        warm(spec.warm_workers ? std::make_unique<WarmPool>(io, spec, log) : nullptr) {}

  // ---- timers that workers set themselves ---------------------------------------------------

  Result<void> open_timers() {
    if (!spec.timer_file) {
      return {};
    }
    auto made = FileTimer::create(
        io, *spec.timer_file, [this](const ExpiredTimer& timer) { on_expired(timer); }, log);
    if (!made) {
      return made.error();
    }
    timers = std::move(*made);
    // Workers inherit our environment, here as under torchrun.
    ::setenv(env::kTimerFile, timers->path().c_str(), 1);
    return {};
  }

  void on_expired(const ExpiredTimer& timer) {
    const std::string what = "its own timer '" + timer.scope + "' expired";
    if (timer.signal <= 0) {
      log->warn("process {}: {}; the timer names no signal, so nothing is sent", timer.pid, what);
      return;
    }
    // Anybody may write to the FIFO, and a pid may be another process by now.
    if (!descends_from(timer.pid, ::getpid())) {
      log->info("process {} is not of this job (any more); its timer is ignored", timer.pid);
      return;
    }
    log->warn("process {}: {}; sending it {}", timer.pid, what, signal_name(timer.signal));
    if (attempt) {
      attempt->note_reason(timer.pid, what);
    }
    ::kill(timer.pid, timer.signal);
  }

  // ---- orders -------------------------------------------------------------------------------

  Result<void> begin(const World& world, const std::string& own_address) {
    DDP_CHECK(group.running_workers() == 0, "two attempts never overlap");
    retire();
    memory.begin();
    if (timers) {
      timers->forget_all();
    }
    attempt = std::make_unique<Attempt>(io, spec, layout, consoles, world, node, warm.get());
    if (!own_address.empty()) {
      attempt->use_network(network_interface_of(own_address));
    }
    const auto started = attempt->start([this](int local_rank, ExitStatus exit) {
      apply(
          group.handle(group::WorkerExited{local_rank, exit, attempt->ended_unasked(local_rank)}));
    });
    if (!started) {
      // Its own workers are killed already; what those had started by then is not.
      attempt.reset();
      (void)kill_descendants({}, descendants_bound(spec));
      return started.error();
    }
    if (warm) {
      warm->attempt_started(world);
    }
    progress.begin([this] { return attempt->progress(); },
                   [this, number = world.attempt](const TrainingProgress& told) {
                     hooks.told(told);
                     if (CoordinatorClient* const coordinator = hooks.coordinator()) {
                       coordinator->workers_progress(number, told);
                     }
                   });
    apply(group.handle(group::Started{world.attempt, spec.local_world_size}));
    // After Started: from here on the workers count as running.
    hang.watch(*attempt);
    return {};
  }

  void obey(const message::Stop& order) {
    CoordinatorClient* const coordinator = hooks.coordinator();
    DDP_CHECK(coordinator != nullptr, "an order comes from a coordinator");
    log->info("attempt {} stops: {}", number(order.attempt), order.reason);
    if (!attempt || attempt->world().attempt != order.attempt) {
      coordinator->workers_stopped(order.attempt, {}, {});  // never started here
      return;
    }
    forget_asked();  // what comes may take the stacks itself, and they have one room
    if (order.how == StopHow::hang) {
      // The stacks are taken from workers that still hang: they are ended after that.
      auto positions =
          hang.look_closely(*attempt, [this] { apply(group.handle(group::StopOrdered{SIGTERM})); });
      coordinator->workers_hung(order.attempt, std::move(positions), order.reason);
      return;
    }
    if (order.how == StopHow::now) {
      // As after a failure here. What workers are able to do takes a read of /proc for each.
      apply(group.handle(group::StopOrdered{SIGTERM}));
      return;
    }
    // What the workers are able to do is looked up now: pages and handlers change while they run.
    const StopPlan plan =
        plan_stop(order.how, order.signal,
                  {attempt->obeys(), order.signal != 0 && attempt->all_catch(order.signal),
                   attempt->all_catch(SIGTERM), spec.shutdown_timeout, spec.preempt_grace});
    const bool preempts = order.how == StopHow::preempt;
    apply(plan.order_save ? group.handle(group::SaveOrdered{plan.grace})
                          : group.handle(group::StopOrdered{plan.signal, plan.grace, preempts}));
  }

  // ---- the worker group's commands -----------------------------------------------------------

  void apply(const std::vector<group::Command>& commands) {
    for (const auto& command : commands) {
      std::visit([this](const auto& one) { carry_out(one); }, command);
    }
    hooks.settled();
  }

  void carry_out(const group::ReportStarted&) {
    if (CoordinatorClient* const coordinator = hooks.coordinator()) {
      coordinator->workers_started(group.attempt());
    }
  }

  void carry_out(const group::ReportFailure& failure) {
    if (CoordinatorClient* const coordinator = hooks.coordinator()) {
      coordinator->worker_failed(group.attempt(), record_of(failure.local_rank));
    }
  }

  void carry_out(const group::SignalWorkers& order) {
    // Before the signal: who cannot react to it is known by how it stands now.
    attempt->note_standstills();
    attempt->signal_all(order.signal, order.fences);
  }

  void carry_out(const group::OrderSave&) {
    log->info("ordering the workers to save and leave");
    attempt->order_save();
  }

  void carry_out(const group::ArmDeadline& order) {
    const milliseconds grace = order.grace.value_or(spec.shutdown_timeout);
    deadline.expires_after(grace);
    deadline.async_wait([this, order, grace](boost::system::error_code error) {
      // The handler of a deadline that was replaced in the turn in which it passed may still come.
      if (!error && deadline.expiry() <= steady_clock::now()) {
        log_deadline(order, grace);
        apply(group.handle(group::DeadlinePassed{}));
      }
    });
  }

  void carry_out(const group::DisarmDeadline&) {
    // A handler that is queued already finds this, and does nothing.
    deadline.expires_at(steady_clock::time_point::max());
  }

  /// Of a fence people are told that the coordinator is lost; how long it took is no news.
  void log_deadline(const group::ArmDeadline& armed, milliseconds grace) {
    const double seconds = std::chrono::duration<double>(grace).count();
    if (armed.what == group::Awaited::save) {
      log->warn("workers have not left {} s after they were ordered to save: ending them", seconds);
    } else if (armed.what == group::Awaited::end) {
      log->warn("workers still run {} s after they were asked to stop: killing them", seconds);
    }
  }

  void carry_out(const group::GiveUp&) {
    hooks.gave_up(Error{"SIGKILL does not end " + attempt->survivors(),
                        {},
                        "this node leaves the job; look after its devices and file systems"});
  }

  void carry_out(const group::ReportFinished&) {
    progress.end();
    if (CoordinatorClient* const coordinator = hooks.coordinator()) {
      coordinator->workers_finished(group.attempt(), attempt->progress());
    }
  }

  void carry_out(const group::KillDescendants&) {
    // Workers that are kept warm for the next attempt are descendants, too.
    const auto keep = warm ? warm->pids() : std::vector<pid_t>();
    const auto killed = kill_descendants(keep, descendants_bound(spec));
    if (!killed) {
      log->error("{}", killed.error().sentence());
    } else if (const int left = *killed - std::exchange(killed_warm, 0); left > 0) {
      log->info("processes that the workers had left behind, and that were killed: {}", left);
    }
  }

  void carry_out(const group::ReportStopped&) {
    progress.end();
    // A worker that left with 0 may be why its peers failed: they lost it. It is told of as well.
    std::vector<FailureRecord> records = attempt->leavers();
    for (FailureRecord& one : records) {
      one.after_stop = worker(one.local_rank).after_stop;
    }
    for (int rank = 0; rank < spec.local_world_size; ++rank) {
      if (!worker(rank).exit.success()) {  // else it is among the leavers
        records.push_back(record_of(rank));
      }
    }
    if (CoordinatorClient* const coordinator = hooks.coordinator()) {
      coordinator->workers_stopped(group.attempt(), std::move(records),
                                   with_ending(attempt->progress(), group.workers()));
    }
  }

  [[nodiscard]] const group::Worker& worker(int local_rank) const {
    const auto at = static_cast<std::size_t>(local_rank);
    DDP_CHECK(local_rank >= 0 && at < group.workers().size(), "local rank out of range");
    return group.workers()[at];
  }

  FailureRecord record_of(int local_rank) {
    const group::Worker& ended = worker(local_rank);
    auto out_of_memory = OomDetector::Verdict::not_memory;
    if (!ended.after_stop) {  // else the signal was ours, and memory has nothing to do with it
      const bool sigkill = ended.exit == ExitStatus{ExitStatus::Kind::signalled, SIGKILL};
      const pid_t pid = attempt->pid(local_rank);
      out_of_memory = memory.verdict(pid);
      attempt->note_reason(pid, memory_clause(out_of_memory, sigkill));
    }
    FailureRecord record = attempt->record(local_rank, ended.exit, ended.after_stop);
    record.out_of_memory = out_of_memory == OomDetector::Verdict::killed_by_limit ||
                           out_of_memory == OomDetector::Verdict::killed_by_machine;
    return record;
  }

  // ---- stacks for who asks ------------------------------------------------------------------

  /// One collection at a time: the workers write into one room each.
  void take_stacks(std::optional<int> rank, StacksTaken done) {
    std::vector<StackTarget> targets = attempt ? attempt->running() : std::vector<StackTarget>();
    std::erase_if(targets, [&](const StackTarget& one) { return rank && one.rank != *rank; });
    if (targets.empty()) {
      done(Error{rank ? "no worker of this rank runs here" : "no worker runs here",
                 rank ? "rank " + std::to_string(*rank) : "", ""});
      return;
    }
    if (asked || hang.looks()) {
      done(Error{"the stacks are being taken already", "", "ask again in some seconds"});
      return;
    }
    std::vector<WorkerStack> stacks;
    for (StackTarget& one : targets) {
      one.why = "stacks taken on request; it runs on";
      stacks.push_back({one.rank, one.pid, {}, one.path, growth_of(one.path)});
    }
    asked_done = std::move(done);
    asked = std::make_unique<StackCollector>(
        io, std::move(targets),
        [this, stacks = std::move(stacks)](std::vector<NewestFrames> newest) mutable {
          for (std::size_t i = 0; i < stacks.size() && i < newest.size(); ++i) {
            stacks[i].frames = std::move(newest[i]);
          }
          asked.reset();
          std::exchange(asked_done, nullptr)(std::move(stacks));
        });
  }

  void forget_asked() {
    if (std::exchange(asked, nullptr)) {
      std::exchange(asked_done,
                    nullptr)(Error{"the attempt ends", "", "ask again in the next one"});
    }
  }

  // ---- the end of an attempt ----------------------------------------------------------------

  /// The old attempt shows the rest of its logs while the new one runs.
  void retire() {
    progress.end();
    if (!attempt) {
      return;
    }
    hang.forget();
    forget_asked();
    retired.push_back(std::move(attempt));
    Attempt* const old = retired.back().get();
    old->finish_logs([this, old] {
      std::erase_if(retired, [old](const auto& one) { return one.get() == old; });
      hooks.settled();
    });
  }

  asio::io_context& io;
  const JobSpec& spec;
  const LogLayout& layout;
  Consoles consoles;
  std::string node;
  LocalWorkersHooks hooks;
  std::shared_ptr<spdlog::logger> log;
  asio::steady_timer deadline;
  HangResponse hang;
  std::unique_ptr<WarmPool> warm;
  int killed_warm = 0;  ///< by forget_warm(): no leftovers of workers
  group::WorkerGroup group;
  OomDetector memory{read_file, in_first_pid_namespace()};
  std::unique_ptr<FileTimer> timers;
  std::unique_ptr<Attempt> attempt;               ///< the newest, until it is retired
  std::vector<std::unique_ptr<Attempt>> retired;  ///< those whose logs are still shown
  ProgressReport progress{io};
  std::unique_ptr<StackCollector> asked;  ///< by take_stacks()
  StacksTaken asked_done;
};

LocalWorkers::LocalWorkers(asio::io_context& io, const JobSpec& spec, const LogLayout& layout,
                           Consoles consoles, std::string node, LocalWorkersHooks hooks,
                           std::shared_ptr<spdlog::logger> log)
    : impl_(std::make_unique<Impl>(io, spec, layout, consoles, std::move(node), std::move(hooks),
                                   std::move(log))) {}

LocalWorkers::~LocalWorkers() = default;

Result<void> LocalWorkers::open_timers() {
  return impl_->open_timers();
}

Result<void> LocalWorkers::begin(const World& world, const std::string& own_address) {
  return impl_->begin(world, own_address);
}

void LocalWorkers::obey(const message::Stop& order) {
  impl_->obey(order);
}

void LocalWorkers::stop(int signal) {
  impl_->apply(impl_->group.handle(group::StopOrdered{signal}));
}

/// The client gives up a tenth of the heartbeat timeout earlier than the coordinator does. Half of
/// that is for the kernel to end what is killed, and for clocks that do not go alike.
void LocalWorkers::fence() {
  const JobSpec& spec = impl_->spec;
  const milliseconds grace = std::min(spec.shutdown_timeout, spec.heartbeat_timeout / 20);
  impl_->apply(impl_->group.handle(group::FenceOrdered{grace}));
}

void LocalWorkers::kill() {
  impl_->apply(impl_->group.handle(group::KillOrdered{}));
}

void LocalWorkers::forget_warm() {
  impl_->killed_warm = impl_->warm ? static_cast<int>(impl_->warm->pids().size()) : 0;
  impl_->warm.reset();
}

void LocalWorkers::retire() {
  DDP_CHECK(!any_running(), "only an attempt whose workers are gone is let go");
  impl_->retire();
}

std::vector<WorkerSnapshot> LocalWorkers::snapshots() const {
  return impl_->attempt ? impl_->attempt->snapshots() : std::vector<WorkerSnapshot>();
}

std::vector<StreamTail> LocalWorkers::output_tails() const {
  return impl_->attempt ? impl_->attempt->output_tails() : std::vector<StreamTail>();
}

const World* LocalWorkers::world() const {
  return impl_->attempt ? &impl_->attempt->world() : nullptr;
}

void LocalWorkers::take_stacks(std::optional<int> rank, StacksTaken done) {
  impl_->take_stacks(rank, std::move(done));
}

bool LocalWorkers::any_running() const {
  return impl_->group.running_workers() > 0;
}

bool LocalWorkers::left_alone() const {
  return impl_->attempt && impl_->attempt->left_alone();
}

bool LocalWorkers::any_to_show() const {
  return !impl_->retired.empty();
}

}  // namespace ddprun
