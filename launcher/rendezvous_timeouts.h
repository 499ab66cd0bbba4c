// How long the nodes of a job wait for each other, by torchrun's rules and our options. Pure.
#pragma once

#include "agent/job_spec.h"
#include "launcher/options.h"
#include "launcher/rdzv_conf.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// Fills the timeouts of `job`, whose backend must be set.
Result<void> resolve_timeouts(const Options& options, const RdzvConf& conf, JobSpec& job);

}  // namespace ddprun
