// StatusJson: a JobSnapshot as one JSON object, for ddpctl and for programs. docs/operations.md is
// its schema. Pure.
#pragma once

#include <string>

#include "agent/operations/job_snapshot.h"

namespace ddprun {

/// Rises when a field changes its meaning or goes away; new fields do not count.
inline constexpr int kStatusSchema = 1;

/// One line of UTF-8, with a newline. Fields are always there: what is not known is null.
std::string status_json(const JobSnapshot& snapshot);

}  // namespace ddprun
