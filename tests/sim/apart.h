// Apart: no two healthy, connected nodes of one job wait for each other longer than it takes to
// notice the loss of a coordinator and to be called by the next one.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tests/sim/options.h"

namespace ddprun::sim {

class Cluster;

class Apart {
 public:
  /// Call it at regular times; what it says is empty as long as all is well.
  std::string look(Cluster& cluster);

 private:
  /// A process that is started anew waits anew. Not by its voter's id: without failover nobody is a
  /// voter, and all have the same one.
  struct Process {
    int machine;
    std::uint64_t life;
    auto operator<=>(const Process&) const = default;
  };
  /// A coordinator that waits, and an agent.
  using Pair = std::pair<Process, Process>;
  std::map<Pair, Duration> since_;
};

}  // namespace ddprun::sim
