#include "agent/process/worker_group.h"

#include <algorithm>
#include <csignal>

#include "rendezvous/base/check.h"

namespace ddprun::group {

std::string_view to_text(State state) {
  switch (state) {
    case State::idle:
      return "idle";
    case State::running:
      return "running";
    case State::draining:
      return "draining";
    case State::finished:
      return "finished";
    case State::stopping:
      return "stopping";
    case State::stopped:
      return "stopped";
  }
  return "?";
}

int WorkerGroup::running_workers() const {
  return static_cast<int>(
      std::count_if(workers_.begin(), workers_.end(), [](const Worker& w) { return w.running; }));
}

bool WorkerGroup::any_failed() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) {
    return !w.running && !w.after_stop && !w.exit.success();
  });
}

bool WorkerGroup::is_working() const {
  return state_ == State::running || state_ == State::draining;
}

std::vector<Command> WorkerGroup::handle(const Event& event) {
  Commands commands = std::visit([this](const auto& e) { return on(e); }, event);
  DDP_CHECK((running_workers() > 0) == (is_working() || state_ == State::stopping),
            "the group runs or stops as long as a worker runs, and no longer");
  DDP_CHECK(!killing_ || !is_working(), "a killed worker does not work");
  return commands;
}

WorkerGroup::Commands WorkerGroup::on(const Started& event) {
  DDP_CHECK(state_ == State::idle || state_ == State::stopped,
            "an attempt starts only when nothing of the one before is left");
  DDP_CHECK(state_ == State::idle || event.attempt > attempt_, "attempt numbers only rise");
  DDP_CHECK(event.workers > 0, "an attempt has at least one worker per node");
  state_ = State::running;
  attempt_ = event.attempt;
  killing_ = false;
  workers_.assign(static_cast<std::size_t>(event.workers), Worker{});
  return {ReportStarted{}};
}

WorkerGroup::Commands WorkerGroup::on(const WorkerExited& event) {
  if (state_ == State::stopped && killing_) {
    return {};  // it was given up, and is dead after all
  }
  DDP_CHECK(is_working() || state_ == State::stopping,
            "a worker can only exit while some are left");
  DDP_CHECK(event.local_rank >= 0 && static_cast<std::size_t>(event.local_rank) < workers_.size(),
            "local rank out of range");
  Worker& worker = workers_[static_cast<std::size_t>(event.local_rank)];
  DDP_CHECK(worker.running, "a worker exits once");
  worker.running = false;
  worker.exit = event.exit;
  // A SIGKILL that is not ours came from outside, even where the worker was still dying of it when
  // the order to stop came.
  const bool killed_by_another =
      event.exit == ExitStatus{ExitStatus::Kind::signalled, SIGKILL} && !killing_;
  worker.after_stop = state_ == State::stopping && !event.unasked && !killed_by_another;

  if (state_ == State::stopping) {
    return running_workers() == 0 ? end_stopping() : Commands{};
  }
  // The siblings of a failed worker would wait for it in their next collective. They are stopped
  // before the coordinator answers.
  if (!event.exit.success()) {
    Commands commands{ReportFailure{event.local_rank}};
    for (auto& command : begin_stopping(SIGTERM)) {
      commands.push_back(command);
    }
    return commands;
  }
  if (running_workers() > 0) {
    return {};
  }
  if (state_ == State::draining) {
    return end_stopping();  // they left as they were ordered to, which is not the end of training
  }
  // Nothing is cleaned up yet: another node may still fail, and then a stop of this attempt comes.
  state_ = State::finished;
  return {ReportFinished{}};
}

WorkerGroup::Commands WorkerGroup::on(const StopOrdered& event) {
  switch (state_) {
    case State::running:
    case State::draining:
    case State::finished:
      return begin_stopping(event.signal, {Awaited::end, event.grace});
    case State::stopping:  // the local failure that caused this order began the stop already
      if (event.preempts && !killing_ && !any_failed()) {
        return {ArmDeadline{Awaited::end, event.grace}};  // what began for less: they may save
      }
      return {};
    case State::idle:     // nothing was ever started: nothing of ours is left
    case State::stopped:  // the report is on its way
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const SaveOrdered& event) {
  switch (state_) {
    case State::running:
    case State::draining:  // a preemption may come while they save for a smaller reason
      state_ = State::draining;
      return {OrderSave{}, ArmDeadline{Awaited::save, event.grace}};
    case State::stopping:  // a worker that saves on SIGTERM may do so; the deadline stays
      return {OrderSave{}};
    case State::finished:
      return begin_stopping(SIGTERM);
    case State::idle:
    case State::stopped:
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const FenceOrdered& event) {
  switch (state_) {
    case State::running:
    case State::draining:
    case State::finished:
      return begin_stopping(SIGTERM, {Awaited::fence, event.grace});
    case State::stopping:
      // A fence shortens the deadline of a stop under way. After SIGKILL only the kernel decides
      // how long a process takes to end.
      return killing_ ? Commands{} : Commands{ArmDeadline{Awaited::fence, event.grace}};
    case State::idle:
    case State::stopped:
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const DeadlinePassed&) {
  switch (state_) {
    case State::draining:
      // Slow savers are ended as anybody else: another grace, then SIGKILL.
      return begin_stopping(SIGTERM);
    case State::stopping:
      return killing_ ? give_up() : kill();
    case State::idle:  // the last worker may have gone in the same turn of the loop
    case State::running:
    case State::finished:
    case State::stopped:
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const KillOrdered&) {
  switch (state_) {
    case State::running:
    case State::draining:
    case State::stopping:
      return kill();
    case State::finished:
      return begin_stopping(SIGTERM);  // nobody is left to signal: it only reports
    case State::idle:
    case State::stopped:
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::begin_stopping(int signal, const ArmDeadline& deadline) {
  DDP_CHECK(signal > 0, "workers are stopped by a signal");
  DDP_CHECK(is_working() || state_ == State::finished, "a stop begins once");
  state_ = State::stopping;
  if (running_workers() == 0) {
    return end_stopping();
  }
  return {SignalWorkers{signal, deadline.what == Awaited::fence}, deadline};
}

/// The report comes last: it lets the coordinator start the next attempt.
WorkerGroup::Commands WorkerGroup::end_stopping() {
  DDP_CHECK(running_workers() == 0, "nothing is reported as stopped that still runs");
  state_ = State::stopped;
  return {DisarmDeadline{}, KillDescendants{}, ReportStopped{}};
}

/// SIGKILL needs no grace, but a process that waits inside the kernel does not see it.
WorkerGroup::Commands WorkerGroup::kill() {
  DDP_CHECK(running_workers() > 0, "there is somebody to kill");
  state_ = State::stopping;
  killing_ = true;
  return {SignalWorkers{SIGKILL}, ArmDeadline{Awaited::death, kUnkillableBound}};
}

/// Counted as gone, though not as stopped: the node leaves the job, which must not wait for what
/// never ends, and no report says that nothing of the attempt is left here.
WorkerGroup::Commands WorkerGroup::give_up() {
  DDP_CHECK(killing_, "only what was killed is given up");
  for (Worker& worker : workers_) {
    worker.running = false;
  }
  state_ = State::stopped;
  return {GiveUp{}};
}

}  // namespace ddprun::group
