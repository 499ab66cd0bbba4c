// SchedulerDefaults: the options that a user need not give inside of an allocation: how many nodes,
// where they meet, under which name, how many workers. What was given, on the command line or by a
// PET_ variable, stays, each value for itself. docs/schedulers.md
#pragma once

#include <optional>
#include <vector>

#include "launcher/notice.h"
#include "launcher/options.h"
#include "launcher/resolve.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/expected_hosts.h"

namespace ddprun {

struct ScheduledOptions {
  Options options;
  std::vector<Notice> notices;
  /// The hosts of the allocation, where the job has as many nodes; empty otherwise.
  ExpectedHosts expected = {};
};

/// Why this environment cannot be a scheduler's, whatever is taken from it (told.h); main exits
/// with kExitUsage for it. None where nothing would be taken at all.
std::optional<Error> odd_scheduler_number(const Options& given, const Environment& environment);

/// Unchanged outside of every scheduler, with --no-scheduler, with --standalone and for a witness.
/// The notice of what was taken is a warning on the first node of the job, so that it is seen (the
/// default level shows warnings): values that nobody typed decide how the job runs, and one line
/// for the whole job is enough. On the other nodes it is for LOGLEVEL=INFO.
///
/// An Error: what a missing option needs cannot be read or is not told; several agents on one host
/// would use the same GPUs; several nodes would meet at a loopback address.
Result<ScheduledOptions> with_scheduler_defaults(const Options& given,
                                                 const Environment& environment, const Host& host);

}  // namespace ddprun
