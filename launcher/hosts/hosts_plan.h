// HostsPlan: what --hosts or --hostfile asks for, ready to be started: the hosts, the words of each
// agent, where they meet and under which name. Pure: what it asks of this machine is in Host. Every
// mistake that this machine can see is a sentence here, before any host is reached.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/hosts/relay_message.h"
#include "launcher/notice.h"
#include "launcher/options.h"
#include "launcher/resolve.h"
#include "rendezvous/base/result.h"

namespace ddprun {

struct HostsPlan {
  RelayStart start;                      ///< for all hosts, in the order of the job
  std::vector<std::string> labels;       ///< of each host: its name as the user wrote it
  int least = 1;                         ///< hosts without which the job cannot go on
  std::vector<std::string> environment;  ///< of the processes here, "NAME=value"
  std::vector<Notice> notices;
};

/// --hosts or --hostfile is given.
bool asks_for_hosts(const Options& options);

/// Where no hosts are asked for: the mistake of a word that is about them, such as --fan-out. Its
/// user believes that hosts are started. A variable may be set for all jobs of a site, and is none.
std::optional<Error> hosts_option_alone(const Options& options);

/// What the shell has, beside its variables.
struct Shell {
  std::string executable;                    ///< absolute path of ddprun itself
  std::span<const char* const> environment;  ///< environ(7), without its null
};

/// The options are checked as the agents will check them, without a look at programs and GPUs of
/// this machine, which may be none of the job's. An Error is one of the configuration.
Result<HostsPlan> plan_hosts(const Options& options, const Environment& environment,
                             const Host& host, const Shell& shell);

}  // namespace ddprun
