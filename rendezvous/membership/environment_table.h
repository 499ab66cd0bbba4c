// Environment table: the differences between the environments of nodes, as lines for people, and as
// a clause for a sentence. Pure and bounded: a table of a thousand nodes is as long as that of two.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rendezvous/membership/node_environment.h"

namespace ddprun {

/// Nodes with one and the same environment.
struct NodesAlike {
  std::vector<std::string> names;
  NodeEnvironment environment;
};

/// Facts that are told; further ones are counted.
inline constexpr std::size_t kTableFactsMax = 40;
/// Values of one fact; further ones are counted.
inline constexpr std::size_t kTableValuesMax = 8;
/// Columns of a value: of longer ones the part around their first difference is shown.
inline constexpr std::size_t kTableValueColumnsMax = 60;

/// One line for each value of each fact that differs, the value of most nodes first (of equally
/// many: the one of the earliest group), the names folded; a head above them. Empty: no difference.
std::vector<std::string> environment_table(const std::vector<NodesAlike>& groups);

/// "NCCL_DEBUG (WARN, not INFO), torch (2.13.0, not 2.12.1) and 4 more": how `one` differs from
/// `reference`; empty when it does not.
std::string difference_clause(const NodeEnvironment& one, const NodeEnvironment& reference);

}  // namespace ddprun
