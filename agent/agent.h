// Agent: one node's life. It joins the job, runs the workers of each attempt that the coordinator
// assigns, reports what happens to them, and returns when the job is over. One event loop, one
// thread; the coordinator and the stores live in it too when this node hosts the endpoint.
#pragma once

#include <memory>

#include "agent/job_spec.h"
#include "rendezvous/base/result.h"
#include "rendezvous/membership/failure.h"

namespace spdlog {
class logger;
}

namespace ddprun {

/// Blocks until the job is over for this node. The summary is the job's, equal on every node; an
/// Error says why this node never became part of a job, or lost it. No process that it started is
/// left when it returns. Call it in a process made by run_under_guardian (guardian.h).
Result<JobSummary> run_agent(const JobSpec& spec, std::shared_ptr<spdlog::logger> log);

}  // namespace ddprun
