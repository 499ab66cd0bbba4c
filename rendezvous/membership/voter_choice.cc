#include "rendezvous/membership/voter_choice.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Adds up to `count` of `nodes`, as far from each other as they can be.
void spread(const std::vector<NodeId>& nodes, std::size_t count, std::vector<NodeId>& chosen) {
  count = std::min(count, nodes.size());
  DDP_CHECK(count == 0 || !nodes.empty(), "what is chosen is there");
  for (std::size_t i = 1; i <= count; ++i) {
    chosen.push_back(nodes[i * nodes.size() / (count + 1)]);
  }
}

}  // namespace

/// Witnesses are there for this. The members are spread over the order of ranks: neighbours in it
/// may share a rack with each other and with the coordinator. They stand first, for a witness need
/// not be a machine that can serve the store of the job.
std::vector<NodeId> choose_voters(const VotersHere& here, VoterId self, std::size_t voters_max,
                                  const std::vector<NodeId>& members,
                                  const std::vector<NodeId>& witnesses) {
  std::vector<NodeId> own;
  std::vector<NodeId> working;
  std::vector<NodeId> beyond;
  std::vector<NodeId> watching;
  for (const NodeId node : members) {
    const VoterHere& one = here.at(node);
    (one.voter() == self ? own : one.beyond ? beyond : working).push_back(node);
  }
  for (const NodeId node : witnesses) {
    const VoterHere& one = here.at(node);
    if (one.voter() == kServiceVoter) {
      return {node};  // it decides alone, so no majority of the nodes is needed
    }
    (one.voter() == self ? own : one.beyond ? beyond : watching).push_back(node);
  }
  const std::size_t others = voters_max - std::min<std::size_t>(voters_max, own.size());
  watching.resize(std::min(watching.size(), others));
  std::vector<NodeId> chosen;
  spread(working, others - watching.size(), chosen);
  // Those that are beyond acknowledge nothing before the plan is in use, and with too many of them
  // it never would be. So they only fill places that are left, up to half of all.
  const std::size_t able = chosen.size() + watching.size() + own.size();
  spread(beyond, std::min(others - watching.size() - chosen.size(), able), chosen);
  chosen.insert(chosen.end(), watching.begin(), watching.end());
  DDP_CHECK(chosen.size() <= others, "no more voters than there are places");
  chosen.insert(chosen.end(), own.begin(), own.end());
  return chosen;
}

}  // namespace ddprun
