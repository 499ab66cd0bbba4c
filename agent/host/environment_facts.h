// Environment facts: what of this node should be equal on all nodes of its job: the programs that
// will run, the libraries that they will load, the GPUs, and the variables of compared_variables.h.
// Reads a few small files; starts nothing, loads nothing. Costs about a millisecond.
#pragma once

#include <string>
#include <vector>

#include "agent/job_spec.h"
#include "rendezvous/membership/node_environment.h"

namespace ddprun {

/// Where this machine shows what it has; other places are for tests.
struct FactPlaces {
  std::string nvidia = "/proc/driver/nvidia";
  std::string loader_cache = "/etc/ld.so.cache";
  std::string own_program = "/proc/self/exe";
};

/// Those of the facts that are known and not ignored. "none" is a fact, too: a machine without a
/// driver differs from one that has one.
NodeEnvironment environment_facts(const Program& program, const std::vector<std::string>& variables,
                                  const std::vector<std::string>& ignored,
                                  const FactPlaces& places = {});

}  // namespace ddprun
