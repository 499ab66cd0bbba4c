// Shrink: the few faults of a schedule that are needed for a story to go wrong (delta debugging:
// Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002).
#pragma once

#include <functional>
#include <vector>

#include "tests/sim/fault.h"

namespace ddprun::sim {

/// A part of `schedule` that still fails, and of which no single fault can be left out. `fails` is
/// asked at most `runs_max` times; the best by then is returned.
std::vector<Fault> shrink(std::vector<Fault> schedule,
                          const std::function<bool(const std::vector<Fault>&)>& fails,
                          int runs_max = 3000);

}  // namespace ddprun::sim
