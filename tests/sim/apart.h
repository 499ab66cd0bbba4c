// Apart: no two healthy, connected nodes of one job wait for each other longer than it takes to
// notice the loss of a coordinator and to be called by the next one.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "rendezvous/membership/configuration.h"
#include "tests/sim/options.h"

namespace ddprun::sim {

class Cluster;

class Apart {
 public:
  /// Call it at regular times; what it says is empty as long as all is well.
  std::string look(Cluster& cluster);

 private:
  /// A coordinator that waits, and an agent: a process that is started anew waits anew.
  using Pair = std::pair<VoterId, VoterId>;
  std::map<Pair, Duration> since_;
};

}  // namespace ddprun::sim
