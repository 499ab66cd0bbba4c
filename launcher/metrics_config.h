// MetricsConfig: where this agent serves metrics and its health (--metrics-port,
// --metrics-address). Pure.
#pragma once

#include "agent/job_spec.h"
#include "launcher/options.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// Fills `job.metrics`. Whether the port is free shows when the agent opens it.
Result<void> resolve_metrics(const Options& options, JobSpec& job);

}  // namespace ddprun
