// AgentState: how an agent stands to its job, as a pure state machine (state x event, one table):
// whether it obeys a coordinator, has lost it, or ends, and how much patience it ends with. It
// knows no process, socket or clock. What the workers do is another table, process/worker_group.h.
//
//   serving ──asked──► asked      the coordinator was asked to end the job
//     ▲  │ lost          ▲  │ lost
//     │  ▼               │  ▼
//   fencing ──asked──► fencing_asked     workers gone: back up, and the search begins; asked, it
//                                        asks the coordinator that it follows next
//   any of them ──concluded──► ending ──logs shown──► flushing ──flushed──► over
//               ──guardian died──► dying: as ending, but nothing is reported
//   asked ──asked again──► asked_now: workers killed, and the coordinator has a moment to answer
//   ending, dying, flushing ──asked again──► without patience: over when the workers are gone
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "rendezvous/membership/failure.h"
#include "rendezvous/membership/stop_order.h"

namespace ddprun::agent {

enum class State : std::uint8_t {
  serving,         ///< it obeys its coordinator, or looks for one
  asked,           ///< so too, and asks each one that it follows to end the job
  asked_now,       ///< asked twice: it ends with what the coordinator says soon, or by itself
  fencing,         ///< the coordinator is lost, and workers may still run
  fencing_asked,   ///< so too, and the next one is to be asked to end the job
  ending,          ///< the outcome is known; its workers end, and their logs are shown
  ending_asked,    ///< so too, and it was asked to stop
  ending_now,      ///< asked twice: only its workers are waited for
  dying,           ///< as ending, without its guardian: the others must count this node as lost
  dying_now,       ///< so too, and asked: only its workers are waited for
  flushing,        ///< nothing of the job is left here but what people have not read yet
  flushing_asked,  ///< so too, and it was asked to stop
  over,
};
inline constexpr std::size_t kStates = 13;

enum class Event : std::uint8_t {
  assigned,       ///< the coordinator has workers to start
  stop_ordered,   ///< or to stop
  lost,           ///< there is no coordinator any more
  concluded,      ///< the job is over, or this node takes no part in it any more
  asked,          ///< a signal asks this agent to stop
  asked_too,      ///< one of another kind, so soon after the first that it is no second wish
  deadline_came,  ///< --deadline, or a notice that this machine goes
  nobody_to_ask,  ///< there is no coordinator to be asked for the end, and none is waited for
  followed,       ///< there is a coordinator: the first one, or the next
  leave_asked,    ///< SIGUSR2
  leave_again,    ///< SIGUSR2, by somebody who waits for the node to leave
  guardian_died,  ///< who would kill the workers if this agent died
  workers_gone,   ///< no worker runs here; comes again while that is so
  logs_shown,     ///< nor is any of their output left to show
  flushed,        ///< the consoles have taken all
};
inline constexpr std::size_t kEvents = 15;

/// What the agent carries out, in the order of its list.
enum class Action : std::uint8_t {
  begin_attempt,
  obey_stop,
  remember_wish,       ///< which signal asked
  request_stop,        ///< ask the coordinator; Event::nobody_to_ask if none can be waited for
  request_now,         ///< tell the coordinator; Event::nobody_to_ask if it says nothing soon
  remember_leave,      ///< and which signal asked for it
  request_leave,       ///< if that is remembered, and as far as there is a coordinator
  limit_search,        ///< Event::nobody_to_ask if no coordinator is found in time
  fence_workers,       ///< they must be gone before anybody else may start others
  search,              ///< for a coordinator, as a candidate maybe
  conclude,            ///< with the outcome that the event brings
  conclude_as_asked,   ///< with the verdict that the wish asks for
  conclude_at_once,    ///< without waiting for the coordinator or a save
  conclude_unguarded,  ///< with an Error
  stop_workers,
  kill_workers,
  retire_attempt,  ///< let go of its workers; their logs are shown to the end
  sweep,           ///< kill what the workers left behind
  flush,           ///< the consoles, and the connections of an own coordinator
  leave_loop,
};
inline constexpr std::size_t kActions = 20;

/// One cell of the table.
class Transition {
 public:
  constexpr Transition() = default;  ///< an event that cannot happen in that state
  template <class... Actions>
  constexpr explicit Transition(State next, Actions... actions)
      : possible_(true), next_(next), actions_{actions...}, count_(sizeof...(actions)) {}

  [[nodiscard]] constexpr bool is_possible() const { return possible_; }
  [[nodiscard]] constexpr State next() const { return next_; }
  [[nodiscard]] constexpr std::span<const Action> actions() const {
    return {actions_.data(), count_};
  }

 private:
  bool possible_ = false;
  State next_ = State::serving;
  std::array<Action, 3> actions_{};
  std::size_t count_ = 0;
};

/// The cell of the table, possible or not.
const Transition& cell(State state, Event event);
/// What the event does in that state. One that cannot happen there is a bug and aborts.
const Transition& on(State state, Event event);

/// Whether the coordinator is told how the workers ended. Without its guardian an agent tells
/// nothing: nobody may rely on a node whose workers would outlive it.
bool reports(State state);
/// Whether the agent still does its part in the job, and nobody has asked it to end.
bool serves(State state);

/// What a signal asks for; 0: the deadline has come. (SIGUSR2 asks for nothing of the job.)
struct Wish {
  StopWish wish = StopWish::end;
  Verdict verdict = Verdict::stopped;  ///< if the job ends by it
  bool stops_workers = true;           ///< at once, without waiting for the coordinator's order
  bool requeues = false;               ///< it is sent only to what is to be started again
};
Wish wish_of(int signal);

std::string_view to_text(State state);
std::string_view to_text(Event event);
std::string_view to_text(Action action);

}  // namespace ddprun::agent
