// Kubernetes: what a pod of an Indexed Job, or of a JobSet, can know about itself. Pure but for the
// host's name, which is asked for.
//
// A pod has its index and its name, `<job>-<index>.<subdomain>.<namespace>...`, and is not told how
// many others there are. So the job's size stays the user's to say; the rest follows from it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/scheduler/allocation.h"

namespace ddprun {

/// None outside of an Indexed Job. `full_host_name` is this host's name with its domain.
std::optional<Allocation> kubernetes_allocation(const Environment& environment,
                                                const std::function<std::string()>& full_host_name);

}  // namespace ddprun
