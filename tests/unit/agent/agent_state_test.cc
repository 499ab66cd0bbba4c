#include "agent/agent_state.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

using namespace ddprun;
using namespace ddprun::agent;

namespace {

template <class Value>
std::vector<Value> all(std::size_t count) {
  std::vector<Value> values;
  for (std::size_t at = 0; at < count; ++at) {
    values.push_back(static_cast<Value>(at));
  }
  return values;
}

const std::vector<State> kAllStates = all<State>(kStates);
const std::vector<Event> kAllEvents = all<Event>(kEvents);

bool does(const Transition& transition, Action action) {
  return std::ranges::count(transition.actions(), action) > 0;
}

/// Whether the agent of this state has its outcome.
bool is_concluded(State state) {
  return state != State::serving && state != State::asked && state != State::asked_now &&
         state != State::fencing && state != State::fencing_asked;
}

/// Each possible cell: `check` is told the state, the event and what they lead to.
template <class Check>
void walk(const Check& check) {
  for (const State state : kAllStates) {
    for (const Event event : kAllEvents) {
      const Transition& transition = cell(state, event);
      CAPTURE(std::string(to_text(state)), std::string(to_text(event)));
      if (transition.is_possible()) {
        check(state, event, transition);
      } else {
        CHECK(transition.actions().empty());
      }
    }
  }
}

/// One life of an agent as a line: each state with what was done on the way to it.
class Story {
 public:
  Story& after(Event event) {
    const Transition& transition = on(state_, event);
    text_ += text_.empty() ? "" : "; ";
    for (const Action action : transition.actions()) {
      text_ += std::string(to_text(action)) + " ";
    }
    text_ += "-> " + std::string(to_text(transition.next()));
    state_ = transition.next();
    return *this;
  }

  [[nodiscard]] std::string text() const { return text_; }
  [[nodiscard]] State state() const { return state_; }

 private:
  State state_ = State::serving;
  std::string text_;
};

Story ending() {
  Story story;
  story.after(Event::concluded);
  return story;
}

}  // namespace

TEST_CASE("every state is reached from the first one, and every state leads to the end") {
  std::vector<State> reached{State::serving};
  for (std::size_t at = 0; at < reached.size(); ++at) {
    for (const Event event : kAllEvents) {
      const Transition& transition = cell(reached[at], event);
      if (transition.is_possible() && std::ranges::count(reached, transition.next()) == 0) {
        reached.push_back(transition.next());
      }
    }
  }
  CHECK(reached.size() == kStates);

  std::vector<State> ends{State::over};
  for (std::size_t grown = 0; grown != ends.size();) {
    grown = ends.size();
    for (const State state : kAllStates) {
      const bool leads = std::ranges::any_of(kAllEvents, [&](Event event) {
        const Transition& transition = cell(state, event);
        return transition.is_possible() && std::ranges::count(ends, transition.next()) > 0;
      });
      if (leads && std::ranges::count(ends, state) == 0) {
        ends.push_back(state);
      }
    }
  }
  CHECK(ends.size() == kStates);
}

TEST_CASE("an outcome is decided once, on the way to an end, and workers are ended with it") {
  walk([](State state, Event, const Transition& transition) {
    const bool concludes =
        does(transition, Action::conclude) || does(transition, Action::conclude_as_asked) ||
        does(transition, Action::conclude_at_once) || does(transition, Action::conclude_unguarded);
    CHECK(concludes == (!is_concluded(state) && is_concluded(transition.next())));
    if (concludes) {
      CHECK((does(transition, Action::stop_workers) || does(transition, Action::kill_workers)));
    }
    if (is_concluded(state)) {
      CHECK(is_concluded(transition.next()));
    }
  });
}

TEST_CASE("an action finds what it needs in the event that leads to it") {
  walk([](State, Event event, const Transition& transition) {
    const auto needs = [&](Action action, bool has) {
      if (does(transition, action)) {
        CHECK(has);
      }
    };
    const bool wish =
        event == Event::asked || event == Event::asked_too || event == Event::deadline_came;
    const bool signalled =
        event == Event::asked || event == Event::leave_asked || event == Event::leave_again;
    needs(Action::begin_attempt, event == Event::assigned);
    needs(Action::obey_stop, event == Event::stop_ordered);
    needs(Action::conclude, event == Event::concluded);
    needs(Action::remember_wish, wish || signalled);
    needs(Action::request_stop, wish || event == Event::followed);
    needs(Action::request_now, signalled);
    needs(Action::conclude_at_once,
          signalled || event == Event::lost || event == Event::nobody_to_ask);
    needs(Action::remember_leave, event == Event::leave_asked);
    needs(Action::request_leave, event == Event::leave_asked || event == Event::followed);
    needs(Action::limit_search, event == Event::lost);
  });
}

TEST_CASE("what may bring the next event comes last, unless nothing more can matter") {
  walk([](State, Event, const Transition& transition) {
    const auto actions = transition.actions();
    for (std::size_t at = 0; at + 1 < actions.size(); ++at) {
      const bool steps_back =
          actions[at] == Action::remember_wish || actions[at] == Action::remember_leave ||
          actions[at] == Action::limit_search || actions[at] == Action::request_now ||
          actions[at] == Action::sweep || actions[at] == Action::conclude ||
          actions[at] == Action::conclude_as_asked || actions[at] == Action::conclude_at_once ||
          actions[at] == Action::conclude_unguarded;
      CHECK((steps_back || transition.next() == State::over));
    }
  });
}

TEST_CASE("workers are assigned to an agent that serves, and to nobody who ends or has no leader") {
  walk([](State state, Event event, const Transition& transition) {
    if (event == Event::assigned) {
      CHECK(does(transition, Action::begin_attempt) ==
            (state == State::serving || state == State::asked));
      CHECK(transition.next() == state);
    }
  });
}

TEST_CASE("the loop is left at the end alone, and not while a worker may run") {
  walk([](State state, Event event, const Transition& transition) {
    CHECK(does(transition, Action::leave_loop) ==
          (transition.next() == State::over && state != State::over));
    if (does(transition, Action::leave_loop)) {
      const bool flushing = state == State::flushing || state == State::flushing_asked;
      CHECK((flushing || event == Event::workers_gone));
    }
    if (state == State::over) {
      CHECK(transition.actions().empty());
    }
  });
}

TEST_CASE("an agent without its guardian reports nothing until its workers are gone") {
  for (const State state : kAllStates) {
    CAPTURE(std::string(to_text(state)));
    CHECK(reports(state) == (state != State::dying && state != State::dying_now));
    const Transition& died = cell(state, Event::guardian_died);
    if (!died.is_possible() || !does(died, Action::kill_workers)) {
      continue;
    }
    CHECK_FALSE(reports(died.next()));
  }
  walk([](State state, Event event, const Transition& transition) {
    if (!reports(state) && reports(transition.next())) {
      CHECK((event == Event::workers_gone || event == Event::logs_shown));
    }
    if (!reports(state)) {
      CHECK_FALSE(does(transition, Action::obey_stop));
    }
  });
}

TEST_CASE("a job that is over: workers end, logs are shown, consoles flushed, and that is all") {
  CHECK(ending().after(Event::workers_gone).after(Event::logs_shown).after(Event::flushed).text() ==
        "conclude stop_workers -> ending; retire_attempt -> ending; sweep flush -> flushing; "
        "leave_loop -> over");
}

TEST_CASE("a lost coordinator: the workers are fenced first, and only then another is searched") {
  CHECK(Story().after(Event::assigned).after(Event::lost).after(Event::workers_gone).text() ==
        "begin_attempt -> serving; fence_workers -> fencing; search -> serving");
}

TEST_CASE("while it fences, an agent obeys nothing of the coordinator that it lost") {
  Story story;
  story.after(Event::lost);
  for (const Event event : {Event::assigned, Event::stop_ordered}) {
    for (const State state : {story.state(), State::fencing_asked}) {
      CHECK(on(state, event).actions().empty());
      CHECK(on(state, event).next() == state);
    }
  }
}

TEST_CASE(
    "an agent that was asked to stop and loses its coordinator asks the next one it follows") {
  CHECK(Story()
            .after(Event::asked)
            .after(Event::lost)
            .after(Event::workers_gone)
            .after(Event::followed)
            .text() ==
        "remember_wish request_stop -> asked; limit_search fence_workers -> fencing_asked; "
        "search -> asked; request_stop -> asked");
}

TEST_CASE("an agent that was asked and finds no coordinator in time ends as it was asked") {
  for (const bool workers_gone : {false, true}) {
    Story story;
    story.after(Event::asked).after(Event::lost);
    if (workers_gone) {
      story.after(Event::workers_gone);
    }
    CHECK(story.after(Event::nobody_to_ask)
              .text()
              .ends_with("; conclude_as_asked stop_workers -> ending_asked"));
  }
}

TEST_CASE("a second signal ends an agent at once, also while it fences or searches") {
  for (const Event event : {Event::asked, Event::leave_asked, Event::leave_again}) {
    CAPTURE(std::string(to_text(event)));
    CHECK(on(State::asked, event).next() == State::asked_now);
    CHECK(on(State::asked_now, event).next() == State::ending_now);
    CHECK(on(State::fencing_asked, event).next() == State::ending_now);
    for (const State state : {State::asked, State::asked_now, State::fencing_asked}) {
      CHECK(does(on(state, event), Action::kill_workers));
    }
  }
}

TEST_CASE("a signal of another kind, right after the first, asks for more and kills nobody") {
  CHECK(Story().after(Event::asked).after(Event::asked_too).text() ==
        "remember_wish request_stop -> asked; remember_wish request_stop -> asked");
  CHECK(Story().after(Event::asked).after(Event::lost).after(Event::asked_too).state() ==
        State::fencing_asked);
  walk([](State state, Event event, const Transition& transition) {
    if (event == Event::asked_too && is_concluded(state)) {
      CHECK(transition.next() == state);
    }
    CHECK_FALSE((event == Event::asked_too && does(transition, Action::kill_workers)));
  });
}

TEST_CASE("a node that is asked to leave asks each coordinator that it follows") {
  CHECK(Story()
            .after(Event::leave_asked)
            .after(Event::lost)
            .after(Event::workers_gone)
            .after(Event::followed)
            .text() ==
        "remember_leave request_leave -> serving; fence_workers -> fencing; search -> serving; "
        "request_leave -> serving");
  CHECK(Story().after(Event::lost).after(Event::leave_asked).text() ==
        "fence_workers -> fencing; remember_leave -> fencing");
}

TEST_CASE("a node that is asked to leave again ends at once") {
  for (const State state : {State::serving, State::fencing}) {
    CHECK(does(on(state, Event::leave_again), Action::remember_wish));
    CHECK(does(on(state, Event::leave_again), Action::kill_workers));
  }
}

TEST_CASE("a warning of the whole job is no second signal of a node that was asked to leave") {
  CHECK(Story().after(Event::leave_asked).after(Event::asked).text() ==
        "remember_leave request_leave -> serving; remember_wish request_stop -> asked");
}

TEST_CASE("who is asked to stop without a coordinator to tell ends at once") {
  CHECK(Story().after(Event::asked).after(Event::nobody_to_ask).text() ==
        "remember_wish request_stop -> asked; conclude_as_asked stop_workers -> ending_asked");
}

TEST_CASE("an agent that is asked to stop while it fences asks the next coordinator") {
  for (const Event wish : {Event::asked, Event::deadline_came}) {
    CHECK(Story()
              .after(Event::lost)
              .after(wish)
              .after(Event::workers_gone)
              .after(Event::followed)
              .text() ==
          "fence_workers -> fencing; remember_wish request_stop -> fencing_asked; "
          "search -> asked; request_stop -> asked");
  }
}

TEST_CASE("the second signal means now: workers are killed, and no reader is waited for") {
  const std::string asked_twice =
      "remember_wish request_stop -> asked; remember_wish request_now kill_workers -> asked_now; ";
  CHECK(Story()
            .after(Event::asked)
            .after(Event::asked)
            .after(Event::concluded)
            .after(Event::workers_gone)
            .text() ==
        asked_twice +
            "conclude kill_workers -> ending_now; retire_attempt sweep leave_loop -> over");
  for (const Event alone : {Event::nobody_to_ask, Event::lost}) {
    CHECK(Story().after(Event::asked).after(Event::asked).after(alone).text() ==
          asked_twice + "conclude_at_once kill_workers -> ending_now");
  }
  CHECK(ending().after(Event::asked).after(Event::asked).state() == State::ending_now);
  CHECK(ending().after(Event::logs_shown).after(Event::asked).after(Event::asked).state() ==
        State::over);
}

TEST_CASE("one signal at the end changes nothing: it may be a scheduler's, for every process") {
  CHECK(ending().after(Event::asked).after(Event::workers_gone).text() ==
        "conclude stop_workers -> ending; -> ending_asked; retire_attempt -> ending_asked");
  CHECK(ending().after(Event::logs_shown).after(Event::asked).state() == State::flushing_asked);
}

TEST_CASE("the deadline asks once, and of a job that is to end anyway nothing") {
  CHECK(Story().after(Event::deadline_came).text() == "remember_wish request_stop -> asked");
  for (const State state : kAllStates) {
    if (state != State::serving && state != State::fencing) {
      CAPTURE(std::string(to_text(state)));
      CHECK(on(state, Event::deadline_came).next() == state);
      CHECK(on(state, Event::deadline_came).actions().empty());
    }
  }
}

TEST_CASE("an agent whose guardian dies kills its workers, even when it was ending already") {
  CHECK(Story().after(Event::guardian_died).text() == "conclude_unguarded kill_workers -> dying");
  CHECK(on(State::ending, Event::guardian_died).next() == State::dying);
  CHECK(does(on(State::ending, Event::guardian_died), Action::kill_workers));
  CHECK(on(State::ending_now, Event::guardian_died).next() == State::dying_now);
}

TEST_CASE("what a signal asks for: a warning preempts the job, any other ends it at once") {
  for (const int signal : {0, SIGTERM, SIGUSR1}) {
    CHECK(wish_of(signal).wish == StopWish::preempt);
    CHECK(wish_of(signal).verdict == Verdict::preempted);
    CHECK_FALSE(wish_of(signal).stops_workers);
    CHECK(wish_of(signal).requeues == (signal != SIGTERM));  // people and schedulers send that one
  }
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT}) {
    CHECK(wish_of(signal).wish == StopWish::end);
    CHECK(wish_of(signal).verdict == Verdict::stopped);
    CHECK(wish_of(signal).stops_workers);
    CHECK_FALSE(wish_of(signal).requeues);
  }
}
