// WorkerGroup: the local workers of one attempt as a pure state machine (state x event, one table).
// Events say what happened, commands say what the agent must do; no process, clock or socket here.
//
//   idle ──started──► running ──all exited 0──► finished ──stop──► stopped
//                      │    │ a worker failed, stop ordered          ▲ ▲
//         save ordered │    └───────────► stopping ──all gone────────┘ │
//                      ▼ failed, too late ▲    └──SIGKILL ends nobody──► stopped, nothing reported
//                   draining ─────────────┘                            │
//                      └──all exited 0─────────────────────────────────┘
//
// A worker that fails stops its siblings at once, without waiting for the coordinator's order: the
// answer to that order is then already on its way. Escalation (save, signal, SIGKILL, give up) is
// one deadline that the agent arms.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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
struct StopOrdered {  ///< by the coordinator, a signal, or the end of this agent
  int signal = 0;     ///< the first signal to send, SIGTERM as a rule
  std::optional<std::chrono::milliseconds> grace = {};  ///< up to SIGKILL; none: the usual one
  bool preempts = false;  ///< the job ends: a stop that began for less may take that grace
};
struct SaveOrdered {                  ///< the workers follow orders to save and leave
  std::chrono::milliseconds grace{};  ///< up to the first signal
};
/// The coordinator is lost: within `grace` all must be gone, whatever grace they had before.
struct FenceOrdered {
  std::chrono::milliseconds grace{};
};
struct DeadlinePassed {};  ///< the deadline that ArmDeadline asked for
struct KillOrdered {};     ///< no more patience: second signal, guardian gone
using Event = std::variant<Started, WorkerExited, StopOrdered, SaveOrdered, FenceOrdered,
                           DeadlinePassed, KillOrdered>;

// What to do, in this order.
struct ReportStarted {};
struct ReportFailure {  ///< the first failure of this attempt on this node
  int local_rank = 0;
};
struct SignalWorkers {  ///< every worker that still runs
  int signal = 0;
  bool fences = false;  ///< for Awaited::fence: nothing may hold it up
};
struct OrderSave {};
/// What the workers have until the deadline.
enum class Awaited : std::uint8_t {
  save,   ///< they save and leave, or are signalled
  end,    ///< they end, or are killed
  fence,  ///< so too, before the coordinator counts this node as lost
  death,  ///< they are dead, or are given up
};
/// From now; replaces the deadline that was armed before.
struct ArmDeadline {
  Awaited what = Awaited::end;
  std::optional<std::chrono::milliseconds> grace = {};  ///< none: the usual one of a stop
};
struct DisarmDeadline {};  ///< it is not needed any more
/// SIGKILL does not end what still runs (I-16). It will never run again, so the group is stopped.
struct GiveUp {};
struct ReportFinished {};   ///< all exited 0
struct KillDescendants {};  ///< what the workers left behind
struct ReportStopped {};    ///< nothing of this attempt is left
using Command =
    std::variant<ReportStarted, ReportFailure, SignalWorkers, OrderSave, ArmDeadline,
                 DisarmDeadline, GiveUp, ReportFinished, KillDescendants, ReportStopped>;

/// From SIGKILL until a worker that is still there is given up, and its node with it (I-16).
inline constexpr std::chrono::milliseconds kUnkillableBound{5'000};

enum class State : std::uint8_t { idle, running, draining, finished, stopping, stopped };
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
  /// The workers work: they may train, or save before they leave.
  [[nodiscard]] bool is_working() const;

 private:
  using Commands = std::vector<Command>;
  Commands on(const Started& event);
  Commands on(const WorkerExited& event);
  Commands on(const StopOrdered& event);
  Commands on(const SaveOrdered& event);
  Commands on(const FenceOrdered& event);
  Commands on(const DeadlinePassed& event);
  Commands on(const KillOrdered& event);
  [[nodiscard]] bool any_failed() const;
  Commands begin_stopping(int signal, const ArmDeadline& deadline = {});
  Commands end_stopping();
  Commands kill();
  Commands give_up();

  State state_ = State::idle;
  AttemptNumber attempt_{};
  std::vector<Worker> workers_;
  bool killing_ = false;  ///< SIGKILL was ordered
};

}  // namespace ddprun::group
