// Rank order: which nodes form the next world, in which order, and the ranks that follow from it.
// Pure functions, linear but for one sort.
//
// Order: the node that hosts the coordinator, then --node-rank where given, then the order of the
// last attempt, then host names in natural order (n2 before n10). Global rank = prefix sum of the
// local world sizes, so nodes may differ in their number of workers; role rank = the same sum over
// the nodes of the same role only (torchrun contract, section 3).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/membership/world.h"

namespace ddprun {

/// What the order looks at. The views must outlive the call.
struct RankCandidate {
  NodeId node{};
  bool hosts_coordinator = false;
  std::optional<int> node_rank;
  std::optional<int> order_hint;
  /// Its group rank in the last attempt that it was a member of.
  std::optional<int> last_group_rank;
  std::string_view host_name;
  std::string_view role;
  int local_world_size = 1;
};

struct RankedNode {
  NodeId node{};
  World world;  ///< ranks and sizes only; the caller sets the attempt and the restarts
};

/// -1, 0 or 1: runs of digits compare as numbers, all else by byte.
int natural_compare(std::string_view a, std::string_view b);

/// The at most `max_nodes` candidates that form a world, ranked. When there are more, those stay
/// that were members before: a spare never displaces a running node.
std::vector<RankedNode> assign_ranks(std::vector<RankCandidate> candidates, int max_nodes);

}  // namespace ddprun
