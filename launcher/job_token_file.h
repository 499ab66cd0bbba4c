// The job's token, from the file of --job-token-file or from DDPRUN_JOB_TOKEN (docs/job-token.md).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/options.h"
#include "rendezvous/base/result.h"
#include "rendezvous/control/job_token.h"

namespace ddprun {

inline constexpr const char* kJobTokenVariable = "DDPRUN_JOB_TOKEN";

/// Null: none is given. The file goes before the variable. `read_file`: none where it cannot be
/// read.
Result<std::shared_ptr<const JobToken>> job_token(
    const Options& options, const Environment& environment,
    const std::function<std::optional<std::string>(const std::string&)>& read_file);

}  // namespace ddprun
