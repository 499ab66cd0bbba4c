// Host: what this machine is: its name, and the processors that we may use.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// The host name as the kernel has it.
std::string host_name();

/// The same with the domain that the resolver knows for it, as "pod-1.service.site"; without one,
/// only the name. Asks the resolver.
std::string full_host_name();

/// Whether the resolver knows the name, and only by loopback addresses. Asks the resolver.
bool is_loopback_name(const std::string& name);

/// A file's content as /proc and /sys have it; none when it cannot be read.
std::optional<std::string> read_file(const std::string& path);

/// Whether process numbers here are those of the kernel's log: not in a container's namespace.
bool in_first_pid_namespace();

/// Processors that this process may use: the affinity mask, cut by the CPU quota of its cgroup
/// (v1 and v2, the tightest on the way to the root), rounded up, at least 1.
int usable_cpus();

/// The name of the interface that has this numeric address; empty when none has, or it is loopback.
std::string network_interface_of(const std::string& address);

}  // namespace ddprun
