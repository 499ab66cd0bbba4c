// WorkerGroup: the local workers of one attempt as a pure state machine (state x event, one table).
// Events say what happened, commands say what the agent must do; no process, clock or socket here.
//
//   idle ──started──► running ──all exited 0──► finished ──stop──► stopped
//                        │ a worker failed, stop ordered             ▲
//                        └──────────────► stopping ──all gone────────┘
//                                            └──given up────────────► stopped, nothing reported
//
// A worker that fails stops its siblings at once, without waiting for the coordinator's order: the
// answer to that order is then already on its way. Escalation is a deadline that the agent arms.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/world.h"

namespace ddprun::group {

// What happened.
struct Started {  ///< all workers of the attempt were spawned
  AttemptNumber attempt{};
  int workers = 0;
};
struct WorkerExited {
  int local_rank = 0;
  ExitStatus exit;
  bool unasked = false;  ///< before it got a signal, though after the group was told to stop
};
struct StopOrdered {  ///< by the coordinator, a signal, or the loss of the coordinator
  int signal = 0;     ///< the first signal to send, SIGTERM as a rule
};
struct DeadlinePassed {};  ///< the deadline that ArmDeadline asked for
struct KillOrdered {};     ///< no more patience: second signal, guardian gone
struct GaveUp {};  ///< SIGKILL does not end what still runs; it will never run again, though
using Event = std::variant<Started, WorkerExited, StopOrdered, DeadlinePassed, KillOrdered, GaveUp>;

// What to do, in this order.
struct ReportStarted {};
struct ReportFailure {  ///< the first failure of this attempt on this node
  int local_rank = 0;
};
struct SignalWorkers {  ///< every worker that still runs
  int signal = 0;
};
struct ArmDeadline {};      ///< the shutdown timeout, from now
struct DisarmDeadline {};   ///< it is not needed any more
struct ReportFinished {};   ///< all exited 0
struct KillDescendants {};  ///< what the workers left behind
struct ReportStopped {};    ///< nothing of this attempt is left
using Command = std::variant<ReportStarted, ReportFailure, SignalWorkers, ArmDeadline,
                             DisarmDeadline, ReportFinished, KillDescendants, ReportStopped>;

enum class State : std::uint8_t { idle, running, finished, stopping, stopped };
std::string_view to_text(State state);

/// One worker as far as the group knows it.
struct Worker {
  bool running = true;
  ExitStatus exit;          ///< valid when not running
  bool after_stop = false;  ///< it ended after it was told to stop
};

class WorkerGroup {
 public:
  /// Takes one event, changes state, returns what to do. An event that does not fit the state
  /// (an order for a group that is stopped already) returns nothing; one that cannot happen (an
  /// exit of a worker that is not running) is a bug and aborts.
  [[nodiscard]] std::vector<Command> handle(const Event& event);

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] AttemptNumber attempt() const { return attempt_; }
  [[nodiscard]] const std::vector<Worker>& workers() const { return workers_; }
  [[nodiscard]] int running_workers() const;

 private:
  using Commands = std::vector<Command>;
  Commands on(const Started& event);
  Commands on(const WorkerExited& event);
  Commands on(const StopOrdered& event);
  Commands on(const DeadlinePassed& event);
  Commands on(const KillOrdered& event);
  Commands on(const GaveUp& event);
  Commands begin_stopping(int signal);
  Commands end_stopping();

  State state_ = State::idle;
  AttemptNumber attempt_{};
  std::vector<Worker> workers_;
  bool killing_ = false;  ///< SIGKILL was ordered
};

}  // namespace ddprun::group
