// Host: what this machine is: its name, its process numbers, its interfaces.
#pragma once

#include <string>

namespace ddprun {

/// The host name as the kernel has it.
std::string host_name();

/// The same with the domain that the resolver knows for it, as "pod-1.service.site"; without one,
/// only the name. Asks the resolver.
std::string full_host_name();

/// Whether the resolver knows the name, and only by loopback addresses. Asks the resolver.
bool is_loopback_name(const std::string& name);

/// Whether process numbers here are those of the kernel's log: not in a container's namespace.
bool in_first_pid_namespace();

/// The name of the interface that has this numeric address; empty when none has, or it is loopback.
std::string network_interface_of(const std::string& address);

}  // namespace ddprun
