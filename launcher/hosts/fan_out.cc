#include "launcher/hosts/fan_out.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {

std::vector<std::vector<RelayHost>> split_hosts(std::span<const RelayHost> hosts,
                                                std::uint32_t fan_out) {
  DDP_CHECK(fan_out > 0, "a process starts one host at least");
  const std::size_t count = std::min<std::size_t>(fan_out, hosts.size());
  std::vector<std::vector<RelayHost>> groups;
  for (std::size_t i = 0; i < count; ++i) {
    // Contiguous, so that hosts which stand side by side in the list, and in the rack as a rule,
    // are below one process. No group is more than one larger than another: the slowest decides
    // when the job begins.
    const std::size_t begin = hosts.size() * i / count;
    const std::size_t end = hosts.size() * (i + 1) / count;
    DDP_CHECK(begin < end, "no group is empty");
    groups.emplace_back(hosts.begin() + static_cast<std::ptrdiff_t>(begin),
                        hosts.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return groups;
}

}  // namespace ddprun
