// HostsRun: the shell's side of --hosts: starts all hosts, shows what their agents write, hands
// signals on, and ends when the last one has.
#pragma once

#include "launcher/hosts/hosts_plan.h"

namespace ddprun {

/// Runs in the process that the guardian made. Returns the exit code of the job (host_states.h).
/// What was not started, or was lost, is a sentence on stderr for each host.
int run_hosts(const HostsPlan& plan);

}  // namespace ddprun
