// AgentWords: the options of each host's agent, as words of a command line. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/options.h"

namespace ddprun {

/// All that was given, by word or by PET_ variable, as "--name=value" in the order of the table;
/// but what starts hosts, and what each agent gets a value of its own for (--nnodes, --node-rank,
/// --no-scheduler). A later "--name=value" replaces one of these.
std::vector<std::string> agent_words(const Options& options);

}  // namespace ddprun
