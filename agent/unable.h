// Tells the job that this node cannot run workers, before it is part of it: so nobody waits for it.
#pragma once

#include <spdlog/logger.h>

#include <memory>

#include "agent/job_spec.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// Tries for two seconds at most: the coordinator may be nowhere yet, and this node ends anyway.
void tell_unable(const JobSpec& spec, const Error& why, std::shared_ptr<spdlog::logger> log);

}  // namespace ddprun
