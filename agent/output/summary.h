// Summary: the end of a job as text for people, and as the agent's own error file.
#pragma once

#include <chrono>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/membership/failure.h"

namespace ddprun {

/// A job that succeeded without an incident has none.
bool has_summary_text(const JobSummary& summary);
/// Pure. For a failed job torchrun's layout (torchrun contract, section 6.2) with all nodes'
/// records, cause, victims and stopped-by-us told apart; after incidents a line for each (attempt,
/// cause, epoch resumed from, downtime and its parts in ms, work done again), the share of
/// effective training and the final loss. Empty without
/// has_summary_text(). `title` is the program as the user wrote it. Ends with a newline.
std::string summary_text(const JobSummary& summary, const std::string& title);

/// Pure. JSON for the agent's TORCHELASTIC_ERROR_FILE: the cause's own error file with errorCode
/// added, or a record made from what is known of it; for a job that did not end by a worker's
/// failure a record of why it ended, at `now`. Empty when the job succeeded.
std::string agent_error_json(const JobSummary& summary,
                             std::chrono::sys_time<std::chrono::microseconds> now);
/// Pure. The same for an agent that failed by itself.
std::string agent_error_json(const Error& error,
                             std::chrono::sys_time<std::chrono::microseconds> now);

/// Writes aside and renames: a reader never sees half a file. A device or FIFO is written to as it
/// is; a link keeps pointing to its file.
Result<void> write_agent_error_file(const std::string& path, const std::string& json);

}  // namespace ddprun
