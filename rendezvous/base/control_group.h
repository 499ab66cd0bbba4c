// ControlGroup: where this process's control groups are in the file system, in both versions of
// cgroups, mixed ones included. Pure: the caller supplies the file reader.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Gives a file's content; none when there is no such file, or it cannot be read.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

/// Directories from this process's group up to the root that it can see, by /proc/self/cgroup and
/// /proc/self/mountinfo. `controller`: of cgroup v1 ("memory"); empty: of the v2 hierarchy. Empty
/// where there is no such hierarchy.
std::vector<std::string> control_group_directories(const FileReader& read,
                                                   const std::string& controller);

}  // namespace ddprun
