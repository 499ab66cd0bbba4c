// Which addresses of another agent are tried, and in which order. Pure.
//
// An agent knows the addresses of its interfaces, not which of them others reach. Many hosts have
// interfaces with the same address (docker0 has 172.17.0.1 everywhere): who calls it gets no
// further than its own host.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// `seen` is the address by which the agent really came. It comes first, also where the agent does
/// not name it, as behind a translator. One that is no other host's, as loopback, is left out.
std::vector<std::string> seen_first(std::vector<std::string> addresses, const std::string& seen);

/// Without those of this host, `own`. An agent that has no others runs on this host: then all.
std::vector<std::string> addresses_to_try(const std::vector<std::string>& addresses,
                                          const std::vector<std::string>& own);

}  // namespace ddprun
