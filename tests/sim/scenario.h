// Scenario: a text that tells what the nodes of a cluster decide. Commands begin a line; the lines
// below one, indented, are what follows from it, exactly. docs/simulation.md lists the commands.
#pragma once

#include <string>

namespace ddprun::sim {

struct Played {
  std::string text;   ///< the scenario with what really follows
  std::string error;  ///< a sentence: it cannot be played, or a rule is broken; empty: neither
};

Played play(const std::string& scenario);

}  // namespace ddprun::sim
