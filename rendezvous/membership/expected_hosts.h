// ExpectedHosts: the hosts that a scheduler has given to the job, so that people read which one is
// missing. A scheduler may call a host otherwise than that calls itself: then nothing is said.
// Pure.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

class JobNodes;

struct ExpectedHosts {
  std::vector<std::string> names;  ///< each once; with or without a domain
  std::string variable;            ///< that names them, as "PBS_NODEFILE"
};

/// Of the expected hosts, those on which no node of the job is; by their names without a domain.
/// None where nothing is expected, or where a node is on a host that is not.
std::vector<std::string> missing_hosts(const ExpectedHosts& expected, const JobNodes& nodes);

}  // namespace ddprun
