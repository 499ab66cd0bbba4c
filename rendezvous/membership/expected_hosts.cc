#include "rendezvous/membership/expected_hosts.h"

#include <set>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/job_nodes.h"

namespace ddprun {
namespace {

/// "n1" of "n1.site"
std::string short_name(const std::string& host) {
  return host.substr(0, host.find('.'));
}

}  // namespace

/// By short names: a scheduler's list has "n1" where the host calls itself "n1.site", and the other
/// way round.
std::vector<std::string> missing_hosts(const ExpectedHosts& expected, const JobNodes& nodes) {
  std::set<std::string> absent;
  for (const std::string& name : expected.names) {
    absent.insert(short_name(name));
  }
  const std::size_t all = absent.size();
  std::set<std::string> here;
  for (const auto& [id, node] : nodes.all()) {
    if (node.witness) {
      continue;
    }
    const std::string name = short_name(node.host_name);
    // Two agents may be on one host. A host that is on no list shows that names differ, and then
    // each expected host would seem to be missing.
    if (absent.erase(name) == 0 && !here.contains(name)) {
      return {};
    }
    here.insert(name);
  }
  DDP_CHECK(absent.size() + here.size() == all, "each expected host is here or absent");
  return {absent.begin(), absent.end()};
}

}  // namespace ddprun
