// mutant_is: which fault the sources of a program of mutants have. mutations.txt has the list.
#pragma once

#include <cstdlib>
#include <string_view>

namespace ddprun::sim {

/// Whether the one at work, by the variable DDPRUN_MUTANT, has this name.
inline bool mutant_is(std::string_view name) {
  static const char* const asked = std::getenv("DDPRUN_MUTANT");
  return asked != nullptr && name == asked;
}

}  // namespace ddprun::sim
