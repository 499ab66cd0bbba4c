#include "agent/agent_state.h"

#include <csignal>

#include "rendezvous/base/check.h"

namespace ddprun::agent {
namespace {

using S = State;
using A = Action;
using Row = std::array<Transition, kEvents>;

template <class... Actions>
constexpr Transition to(State next, Actions... actions) {
  return Transition(next, actions...);
}
constexpr Transition kNever{};

/// An action that may bring the next event by itself (stop_workers finds nobody running, say) is
/// the last of its list, except where the state it leads to ignores all that may come.
constexpr std::array<Row, kStates> kTable{{
    // serving
    {
        /* assigned      */ to(S::serving, A::begin_attempt),
        /* stop_ordered  */ to(S::serving, A::obey_stop),
        /* lost          */ to(S::fencing, A::fence_workers),
        /* concluded     */ to(S::ending, A::conclude, A::stop_workers),
        /* asked         */ to(S::asked, A::remember_wish, A::request_stop),
        /* asked_too     */ to(S::asked, A::remember_wish, A::request_stop),
        /* deadline_came */ to(S::asked, A::remember_wish, A::request_stop),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::serving, A::request_leave),
        /* leave_asked   */ to(S::serving, A::remember_leave, A::request_leave),
        /* leave_again   */
        to(S::asked_now, A::remember_wish, A::request_now, A::kill_workers),
        /* guardian_died */ to(S::dying, A::conclude_unguarded, A::kill_workers),
        /* workers_gone  */ to(S::serving),  // between two attempts
        /* logs_shown    */ to(S::serving),
        /* flushed       */ kNever,
    },
    // asked: the coordinator's orders bring the end, with a last attempt on the way maybe. A
    // coordinator that dies takes the wish along, so its successor is asked again.
    {
        /* assigned      */ to(S::asked, A::begin_attempt),
        /* stop_ordered  */ to(S::asked, A::obey_stop),
        /* lost          */ to(S::fencing_asked, A::limit_search, A::fence_workers),
        /* concluded     */ to(S::ending_asked, A::conclude, A::stop_workers),
        /* asked         */ to(S::asked_now, A::remember_wish, A::request_now, A::kill_workers),
        /* asked_too     */ to(S::asked, A::remember_wish, A::request_stop),
        /* deadline_came */ to(S::asked),
        /* nobody_to_ask */ to(S::ending_asked, A::conclude_as_asked, A::stop_workers),
        /* followed      */ to(S::asked, A::request_stop),
        /* leave_asked   */
        to(S::asked_now, A::remember_wish, A::request_now, A::kill_workers),
        /* leave_again   */
        to(S::asked_now, A::remember_wish, A::request_now, A::kill_workers),
        /* guardian_died */ to(S::dying, A::conclude_unguarded, A::kill_workers),
        /* workers_gone  */ to(S::asked),
        /* logs_shown    */ to(S::asked),
        /* flushed       */ kNever,
    },
    // asked_now: all agents are to end with one code, so the coordinator is told, and may answer
    {
        /* assigned      */ to(S::asked_now),
        /* stop_ordered  */ to(S::asked_now, A::obey_stop),
        /* lost          */ to(S::ending_now, A::conclude_at_once, A::kill_workers),
        /* concluded     */ to(S::ending_now, A::conclude, A::kill_workers),
        /* asked         */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* asked_too     */ to(S::asked_now),
        /* deadline_came */ to(S::asked_now),
        /* nobody_to_ask */ to(S::ending_now, A::conclude_at_once, A::kill_workers),
        /* followed      */ to(S::asked_now),
        /* leave_asked   */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* leave_again   */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* guardian_died */ to(S::dying, A::conclude_unguarded, A::kill_workers),
        /* workers_gone  */ to(S::asked_now),
        /* logs_shown    */ to(S::asked_now),
        /* flushed       */ kNever,
    },
    // fencing: what the lost coordinator still orders is not obeyed, and the next one is asked
    {
        /* assigned      */ to(S::fencing),
        /* stop_ordered  */ to(S::fencing),
        /* lost          */ kNever,
        /* concluded     */ to(S::ending, A::conclude, A::stop_workers),
        /* asked         */ to(S::fencing_asked, A::remember_wish, A::request_stop),
        /* asked_too     */ to(S::fencing_asked, A::remember_wish, A::request_stop),
        /* deadline_came */ to(S::fencing_asked, A::remember_wish, A::request_stop),
        /* nobody_to_ask */ kNever,
        /* followed      */ kNever,
        /* leave_asked   */ to(S::fencing, A::remember_leave),
        /* leave_again   */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* guardian_died */ to(S::dying, A::conclude_unguarded, A::kill_workers),
        /* workers_gone  */ to(S::serving, A::search),
        /* logs_shown    */ kNever,  // workers_gone comes first, and leads away
        /* flushed       */ kNever,
    },
    // fencing_asked: it votes and searches like any other, because the others may need its vote
    {
        /* assigned      */ to(S::fencing_asked),
        /* stop_ordered  */ to(S::fencing_asked),
        /* lost          */ kNever,
        /* concluded     */ to(S::ending_asked, A::conclude, A::stop_workers),
        /* asked         */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* asked_too     */ to(S::fencing_asked, A::remember_wish, A::request_stop),
        /* deadline_came */ to(S::fencing_asked),
        /* nobody_to_ask */ to(S::ending_asked, A::conclude_as_asked, A::stop_workers),
        /* followed      */ kNever,
        /* leave_asked   */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* leave_again   */
        to(S::ending_now, A::remember_wish, A::conclude_at_once, A::kill_workers),
        /* guardian_died */ to(S::dying, A::conclude_unguarded, A::kill_workers),
        /* workers_gone  */ to(S::asked, A::search),
        /* logs_shown    */ kNever,  // workers_gone comes first, and leads away
        /* flushed       */ kNever,
    },
    // ending: the first outcome stands; a signal may be the scheduler's, at the end of all
    {
        /* assigned      */ to(S::ending),
        /* stop_ordered  */ to(S::ending, A::obey_stop),
        /* lost          */ to(S::ending),
        /* concluded     */ to(S::ending),
        /* asked         */ to(S::ending_asked),
        /* asked_too     */ to(S::ending),
        /* deadline_came */ to(S::ending),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::ending),
        /* leave_asked   */ to(S::ending),
        /* leave_again   */ to(S::ending_asked),
        /* guardian_died */ to(S::dying, A::kill_workers),
        /* workers_gone  */ to(S::ending, A::retire_attempt),
        /* logs_shown    */ to(S::flushing, A::sweep, A::flush),
        /* flushed       */ kNever,
    },
    // ending_asked
    {
        /* assigned      */ to(S::ending_asked),
        /* stop_ordered  */ to(S::ending_asked, A::obey_stop),
        /* lost          */ to(S::ending_asked),
        /* concluded     */ to(S::ending_asked),
        /* asked         */ to(S::ending_now, A::kill_workers),
        /* asked_too     */ to(S::ending_asked),
        /* deadline_came */ to(S::ending_asked),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::ending_asked),
        /* leave_asked   */ to(S::ending_asked),
        /* leave_again   */ to(S::ending_now, A::kill_workers),
        /* guardian_died */ to(S::dying, A::kill_workers),
        /* workers_gone  */ to(S::ending_asked, A::retire_attempt),
        /* logs_shown    */ to(S::flushing_asked, A::sweep, A::flush),
        /* flushed       */ kNever,
    },
    // ending_now: not even logs or a console that nobody reads are waited for
    {
        /* assigned      */ to(S::ending_now),
        /* stop_ordered  */ to(S::ending_now, A::obey_stop),
        /* lost          */ to(S::ending_now),
        /* concluded     */ to(S::ending_now),
        /* asked         */ to(S::ending_now),
        /* asked_too     */ to(S::ending_now),
        /* deadline_came */ to(S::ending_now),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::ending_now),
        /* leave_asked   */ to(S::ending_now),
        /* leave_again   */ to(S::ending_now),
        /* guardian_died */ to(S::dying_now),
        /* workers_gone  */ to(S::over, A::retire_attempt, A::sweep, A::leave_loop),
        /* logs_shown    */ kNever,  // workers_gone comes first, and leads away
        /* flushed       */ kNever,
    },
    // dying: its workers were sent SIGKILL, so one signal is enough to mean now; it answers nobody
    {
        /* assigned      */ to(S::dying),
        /* stop_ordered  */ to(S::dying),
        /* lost          */ to(S::dying),
        /* concluded     */ to(S::dying),
        /* asked         */ to(S::dying_now, A::kill_workers),
        /* asked_too     */ to(S::dying),
        /* deadline_came */ to(S::dying),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::dying),
        /* leave_asked   */ to(S::dying),
        /* leave_again   */ to(S::dying_now, A::kill_workers),
        /* guardian_died */ kNever,
        /* workers_gone  */ to(S::dying, A::retire_attempt),
        /* logs_shown    */ to(S::flushing, A::sweep, A::flush),
        /* flushed       */ kNever,
    },
    // dying_now
    {
        /* assigned      */ to(S::dying_now),
        /* stop_ordered  */ to(S::dying_now),
        /* lost          */ to(S::dying_now),
        /* concluded     */ to(S::dying_now),
        /* asked         */ to(S::dying_now),
        /* asked_too     */ to(S::dying_now),
        /* deadline_came */ to(S::dying_now),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::dying_now),
        /* leave_asked   */ to(S::dying_now),
        /* leave_again   */ to(S::dying_now),
        /* guardian_died */ kNever,
        /* workers_gone  */ to(S::over, A::retire_attempt, A::sweep, A::leave_loop),
        /* logs_shown    */ kNever,  // workers_gone comes first, and leads away
        /* flushed       */ kNever,
    },
    // flushing: no process is left that a guardian would have to kill
    {
        /* assigned      */ to(S::flushing),
        /* stop_ordered  */ to(S::flushing, A::obey_stop),
        /* lost          */ to(S::flushing),
        /* concluded     */ to(S::flushing),
        /* asked         */ to(S::flushing_asked),
        /* asked_too     */ to(S::flushing),
        /* deadline_came */ to(S::flushing),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::flushing),
        /* leave_asked   */ to(S::flushing),
        /* leave_again   */ to(S::flushing_asked),
        /* guardian_died */ to(S::flushing),
        /* workers_gone  */ to(S::flushing),
        /* logs_shown    */ to(S::flushing),
        /* flushed       */ to(S::over, A::leave_loop),
    },
    // flushing_asked
    {
        /* assigned      */ to(S::flushing_asked),
        /* stop_ordered  */ to(S::flushing_asked, A::obey_stop),
        /* lost          */ to(S::flushing_asked),
        /* concluded     */ to(S::flushing_asked),
        /* asked         */ to(S::over, A::leave_loop),
        /* asked_too     */ to(S::flushing_asked),
        /* deadline_came */ to(S::flushing_asked),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::flushing_asked),
        /* leave_asked   */ to(S::flushing_asked),
        /* leave_again   */ to(S::over, A::leave_loop),
        /* guardian_died */ to(S::flushing_asked),
        /* workers_gone  */ to(S::flushing_asked),
        /* logs_shown    */ to(S::flushing_asked),
        /* flushed       */ to(S::over, A::leave_loop),
    },
    // over: the loop may still hand out what was under way in its last turn
    {
        /* assigned      */ to(S::over),
        /* stop_ordered  */ to(S::over),
        /* lost          */ to(S::over),
        /* concluded     */ to(S::over),
        /* asked         */ to(S::over),
        /* asked_too     */ to(S::over),
        /* deadline_came */ to(S::over),
        /* nobody_to_ask */ kNever,
        /* followed      */ to(S::over),
        /* leave_asked   */ to(S::over),
        /* leave_again   */ to(S::over),
        /* guardian_died */ to(S::over),
        /* workers_gone  */ to(S::over),
        /* logs_shown    */ to(S::over),
        /* flushed       */ to(S::over),
    },
}};

constexpr std::array<std::string_view, kStates> kStateNames{
    "serving",    "asked", "asked_now", "fencing",  "fencing_asked",  "ending", "ending_asked",
    "ending_now", "dying", "dying_now", "flushing", "flushing_asked", "over"};
constexpr std::array<std::string_view, kEvents> kEventNames{
    "assigned",    "stop_ordered",  "lost",          "concluded",  "asked",
    "asked_too",   "deadline_came", "nobody_to_ask", "followed",   "leave_asked",
    "leave_again", "guardian_died", "workers_gone",  "logs_shown", "flushed"};
constexpr std::array<std::string_view, kActions> kActionNames{"begin_attempt",
                                                              "obey_stop",
                                                              "remember_wish",
                                                              "request_stop",
                                                              "request_now",
                                                              "remember_leave",
                                                              "request_leave",
                                                              "limit_search",
                                                              "fence_workers",
                                                              "search",
                                                              "conclude",
                                                              "conclude_as_asked",
                                                              "conclude_at_once",
                                                              "conclude_unguarded",
                                                              "stop_workers",
                                                              "kill_workers",
                                                              "retire_attempt",
                                                              "sweep",
                                                              "flush",
                                                              "leave_loop"};

template <class Names, class Value>
std::string_view name_in(const Names& names, Value value) {
  const auto at = static_cast<std::size_t>(value);
  DDP_CHECK(at < names.size(), "every value has a name");
  DDP_CHECK(!names[at].empty(), "a list of names that is too short ends in empty ones");
  return names[at];
}

}  // namespace

const Transition& cell(State state, Event event) {
  const auto row = static_cast<std::size_t>(state);
  const auto column = static_cast<std::size_t>(event);
  DDP_CHECK(row < kStates, "every state has a row");
  DDP_CHECK(column < kEvents, "every event has a column");
  return kTable[row][column];
}

const Transition& on(State state, Event event) {
  const Transition& found = cell(state, event);
  DDP_CHECK(found.is_possible(), "an event came that cannot happen in this state of the agent");
  DDP_CHECK(state != State::over || found.next() == State::over, "what is over stays over");
  DDP_CHECK(found.next() != State::serving || state == State::serving || state == State::fencing,
            "an agent that was asked to end, or ends, never serves again");
  DDP_CHECK(found.next() != State::over || state == State::over ||
                (!found.actions().empty() && found.actions().back() == Action::leave_loop),
            "the last action on the way out leaves the loop");
  return found;
}

bool reports(State state) {
  return state != State::dying && state != State::dying_now;
}

bool serves(State state) {
  return state == State::serving || state == State::fencing;
}

Wish wish_of(int signal) {
  DDP_CHECK(signal >= 0, "a signal has a number, and the deadline has 0");
  const bool preempts = signal == 0 || signal == SIGTERM || signal == SIGUSR1;
  return preempts ? Wish{StopWish::preempt, Verdict::preempted, false, signal != SIGTERM}
                  : Wish{StopWish::end, Verdict::stopped, true, false};
}

std::string_view to_text(State state) {
  return name_in(kStateNames, state);
}

std::string_view to_text(Event event) {
  return name_in(kEventNames, event);
}

std::string_view to_text(Action action) {
  return name_in(kActionNames, action);
}

}  // namespace ddprun::agent
