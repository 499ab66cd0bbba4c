#include "rendezvous/membership/world_notice.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {

/// Where nobody else votes the job ends with this coordinator, and a new one begins it anew: it
/// would wait in vain for others who know of this world. (A consensus service knows by itself.)
std::optional<TellWorld> world_notice(std::vector<NodeId> nodes, const Leadership& leadership,
                                      VoterId self, std::optional<AttemptNumber> attempt) {
  const ReplicatedState& in_use = leadership.in_use();
  const std::vector<VoterId>& voters = in_use.configuration.voters;
  const bool others_vote = std::any_of(voters.begin(), voters.end(), [self](VoterId voter) {
    return voter != self && voter != kServiceVoter;
  });
  if (nodes.empty() || !attempt || !others_vote) {
    return std::nullopt;
  }
  DDP_CHECK(in_use.attempt >= *attempt, "the world in use is the newest");
  return TellWorld{std::move(nodes), *attempt, in_use.configuration.number, in_use.term,
                   in_use.instance};
}

}  // namespace ddprun
