// TopView: how busy the workers of a node are, from two statuses and the time between them. Pure.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/ctl/gpu_usage.h"

namespace ddprun {

/// A line about the job, one for each worker and one for each GPU. `before`: the look before, null
/// at the first; then rates since a worker's first step are shown, and no share of processors.
std::string top_text(const nlohmann::json& before, const nlohmann::json& now,
                     std::chrono::nanoseconds between, const std::vector<GpuUsage>& gpus);

/// The rank that the others wait for: with the fewest steps, and of these with the fewest
/// collectives entered. None where all that run have as many, or tell nothing.
std::optional<int> slowest_rank(const nlohmann::json& status);

}  // namespace ddprun
