// Exploration: all orders in which the messages, calls and timers of a small cluster may happen,
// with a few faults at any moment. It is stateless model checking (Godefroid, "Model Checking for
// Programming Languages using VeriSoft", 1997): each path is run from its beginning, and one that
// comes to a state that was seen before goes no further.
//
// A message takes no time, so all that is on its way at one instant is read in any order, but one
// connection's messages in theirs. Timers that are due in the same millisecond fire in any order,
// too. Then time goes to the next deadline. A fault may come wherever somebody has decided or said
// something since the last moment at which it could have come.
//
// Two states are one where the same is decided by all that Node, Leader and Leadership show, the
// same was sent, the same actions that changed anything were taken (in whatever order), and the
// same are to come. What those classes hide follows from these. Heartbeats are left out of it and
// read at once: the leases that they keep are a part of the state.
#pragma once

#include <cstdint>

#include "tests/sim/explored_world.h"

namespace ddprun::sim {

struct Explored {
  std::uint64_t states = 0;       ///< in which there was a choice
  std::uint64_t paths = 0;        ///< that were begun
  std::uint64_t begun_twice = 0;  ///< paths that are judged only up to a point (Observer)
  std::uint64_t depth = 0;        ///< actions of the longest path
  bool is_wrong = false;          ///< a rule is broken, or a check failed
};

/// In a process of its own. What is wrong, and the path to it, is printed, a step a line.
Explored explore(const ExploreOptions& options);

}  // namespace ddprun::sim
