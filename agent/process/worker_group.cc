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

std::vector<Command> WorkerGroup::handle(const Event& event) {
  return std::visit([this](const auto& e) { return on(e); }, event);
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
  DDP_CHECK(state_ == State::running || state_ == State::stopping,
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
  if (!event.exit.success()) {
    Commands commands{ReportFailure{event.local_rank}};
    for (auto& command : begin_stopping(SIGTERM)) {
      commands.push_back(command);
    }
    return commands;
  }
  if (running_workers() == 0) {
    state_ = State::finished;
    return {ReportFinished{}};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const StopOrdered& event) {
  switch (state_) {
    case State::running:
    case State::finished:
      return begin_stopping(event.signal);
    case State::idle:      // nothing was ever started: nothing of ours is left
    case State::stopping:  // the local failure that caused this order began the stop already
    case State::stopped:   // and may have ended it: the report is on its way
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const DeadlinePassed&) {
  // The last worker may have gone in the same turn of the loop: then there is nobody to kill.
  if (state_ != State::stopping) {
    return {};
  }
  killing_ = true;
  return {SignalWorkers{SIGKILL}};
}

WorkerGroup::Commands WorkerGroup::on(const KillOrdered&) {
  killing_ = true;
  switch (state_) {
    case State::running:
      state_ = State::stopping;
      return {SignalWorkers{SIGKILL}};
    case State::stopping:
      return {DisarmDeadline{}, SignalWorkers{SIGKILL}};
    case State::finished:
      return begin_stopping(SIGKILL);
    case State::idle:
    case State::stopped:
      return {};
  }
  return {};
}

WorkerGroup::Commands WorkerGroup::on(const GaveUp&) {
  DDP_CHECK(state_ == State::stopping, "only what was killed can be given up");
  for (Worker& worker : workers_) {
    worker.running = false;
  }
  state_ = State::stopped;
  return {DisarmDeadline{}};
}

WorkerGroup::Commands WorkerGroup::begin_stopping(int signal) {
  state_ = State::stopping;
  killing_ = signal == SIGKILL;
  if (running_workers() == 0) {
    return end_stopping();
  }
  return {SignalWorkers{signal}, ArmDeadline{}};
}

WorkerGroup::Commands WorkerGroup::end_stopping() {
  state_ = State::stopped;
  return {DisarmDeadline{}, KillDescendants{}, ReportStopped{}};
}

}  // namespace ddprun::group
