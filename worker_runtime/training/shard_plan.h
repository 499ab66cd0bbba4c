// ShardPlan: which rank's optimizer keeps the state of which parameter. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddp {

/// For each parameter the rank that owns it: the largest one first, each to the rank that has the
/// fewest bytes so far (of equals the lowest). Depends on sizes and ranks alone, so all ranks come
/// to the same plan. The largest share is at most the mean plus one parameter (Graham's bound for
/// lists sorted so is 4/3 of the best possible). Needs at least one rank.
std::vector<int> plan_shards(const std::vector<std::size_t>& sizes_bytes, int ranks);

}  // namespace ddp
