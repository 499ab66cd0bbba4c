#include "rendezvous/membership/rank_order.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Of a node without a rank or a place of its own: behind all that have one.
constexpr int kLast = std::numeric_limits<int>::max();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// The run of digits at `at`, without leading zeros; `at` moves behind it.
std::string_view take_number(std::string_view text, std::size_t& at) {
  const std::size_t begin = at;
  while (at < text.size() && is_digit(text[at])) {
    ++at;
  }
  std::string_view digits = text.substr(begin, at - begin);
  while (digits.size() > 1 && digits.front() == '0') {
    digits.remove_prefix(1);
  }
  return digits;
}

int sign(int value) {
  return (value > 0) - (value < 0);
}

/// The coordinator's node comes first, because the store of the attempt is there (OpenStore). The
/// id decides last, so that the order is total and equal in every run.
bool ranked_before(const RankCandidate& a, const RankCandidate& b) {
  const auto key = [](const RankCandidate& c) {
    return std::tuple(!c.hosts_coordinator, c.node_rank.value_or(kLast),
                      c.order_hint.value_or(kLast), c.last_group_rank.value_or(kLast));
  };
  if (key(a) != key(b)) {
    return key(a) < key(b);
  }
  if (const int by_name = natural_compare(a.host_name, b.host_name); by_name != 0) {
    return by_name < 0;
  }
  return a.node < b.node;
}

/// Keeps the coordinator's node and members of the last attempt before any newcomer.
bool kept_before(const RankCandidate& a, const RankCandidate& b) {
  const auto newcomer = [](const RankCandidate& c) {
    return !c.hosts_coordinator && !c.last_group_rank.has_value();
  };
  return newcomer(a) != newcomer(b) ? newcomer(b) : ranked_before(a, b);
}

}  // namespace

/// As people number their hosts, so that neighbouring ranks are on neighbouring hosts.
int natural_compare(std::string_view a, std::string_view b) {
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const std::string_view x = take_number(a, i);
      const std::string_view y = take_number(b, j);
      if (x.size() != y.size()) {
        return x.size() < y.size() ? -1 : 1;
      }
      if (const int by_digits = x.compare(y); by_digits != 0) {
        return sign(by_digits);
      }
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]) ? -1 : 1;
    } else {
      ++i;
      ++j;
    }
  }
  if (i == a.size() && j == b.size()) {
    return sign(a.compare(b));  // n02 and n2 are different names, so the order must be total
  }
  return i == a.size() ? -1 : 1;
}

/// Two orders: one says who stays when there are too many, the other who has which rank. A spare is
/// the last to be taken, whatever rank it would have.
std::vector<RankedNode> assign_ranks(std::vector<RankCandidate> candidates, int max_nodes) {
  DDP_CHECK(!candidates.empty(), "a world has at least one node");
  DDP_CHECK(max_nodes >= 1, "a world may have at least one node");
  if (candidates.size() > static_cast<std::size_t>(max_nodes)) {
    std::sort(candidates.begin(), candidates.end(), kept_before);
    candidates.resize(static_cast<std::size_t>(max_nodes));
  }
  std::sort(candidates.begin(), candidates.end(), ranked_before);

  // Sizes are known when all have been counted, so a second pass fills them in.
  std::vector<RankedNode> ranked;
  ranked.reserve(candidates.size());
  std::unordered_map<std::string_view, int> role_sizes;
  int base_rank = 0;
  for (const RankCandidate& candidate : candidates) {
    DDP_CHECK(candidate.local_world_size >= 1, "every node has a worker");
    int& role_size = role_sizes[candidate.role];
    World world;
    world.group_rank = static_cast<int>(ranked.size());
    world.base_rank = base_rank;
    world.role_base_rank = role_size;
    ranked.push_back({candidate.node, world});
    base_rank += candidate.local_world_size;
    role_size += candidate.local_world_size;
  }
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    World& world = ranked[i].world;
    world.group_world_size = static_cast<int>(ranked.size());
    world.world_size = base_rank;
    world.role_world_size = role_sizes.at(candidates[i].role);
    DDP_CHECK(world.base_rank < world.world_size, "a base rank lies inside the world");
    DDP_CHECK(world.role_world_size <= world.world_size, "a role is part of the world");
  }
  DDP_CHECK(ranked.size() == candidates.size() && ranked.front().world.base_rank == 0,
            "ranks begin at 0, and each candidate has one");
  return ranked;
}

}  // namespace ddprun
