#include "worker_runtime/training/shard_plan.h"

#include <algorithm>
#include <numeric>

#include "rendezvous/base/check.h"

namespace ddp {

std::vector<int> plan_shards(const std::vector<std::size_t>& sizes_bytes, int ranks) {
  DDP_CHECK(ranks >= 1, "somebody owns the parameters");
  std::vector<std::size_t> by_size(sizes_bytes.size());
  std::iota(by_size.begin(), by_size.end(), std::size_t{0});
  // Stable: of equal ones the first comes first on every machine.
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return sizes_bytes[a] > sizes_bytes[b]; });
  std::vector<int> owners(sizes_bytes.size(), -1);
  std::vector<std::size_t> loads_bytes(static_cast<std::size_t>(ranks));
  for (const std::size_t i : by_size) {
    const auto least = std::min_element(loads_bytes.begin(), loads_bytes.end());
    owners[i] = static_cast<int>(least - loads_bytes.begin());
    *least += sizes_bytes[i];
  }
  for (const int owner : owners) {
    DDP_CHECK(owner >= 0 && owner < ranks, "each parameter has one owner, a rank of this world");
  }
  return owners;
}

}  // namespace ddp
