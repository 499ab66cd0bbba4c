// Apart: no two healthy, connected nodes of one job wait for each other longer than it takes to
// notice the loss of a coordinator and to be called by the next one.
#pragma once

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
  std::map<std::pair<int, int>, Duration> since_;  ///< a coordinator that waits, and a node
};

}  // namespace ddprun::sim
