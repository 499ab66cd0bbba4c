#include "rendezvous/membership/rank_order.h"

#include <catch2/catch.hpp>

using namespace ddprun;

namespace {

RankCandidate node(std::uint64_t id, std::string_view host, int workers = 1) {
  RankCandidate candidate;
  candidate.node = NodeId{id};
  candidate.host_name = host;
  candidate.role = "default";
  candidate.local_world_size = workers;
  return candidate;
}

std::vector<std::uint64_t> order(const std::vector<RankedNode>& ranked) {
  std::vector<std::uint64_t> ids;
  for (const RankedNode& one : ranked) {
    ids.push_back(number(one.node));
  }
  return ids;
}

}  // namespace

TEST_CASE("Host names are ordered as people count") {
  CHECK(natural_compare("n2", "n10") < 0);
  CHECK(natural_compare("n10", "n2") > 0);
  CHECK(natural_compare("rack1-n9", "rack1-n10") < 0);
  CHECK(natural_compare("rack2-n1", "rack10-n1") < 0);
  CHECK(natural_compare("n1", "n1a") < 0);
  CHECK(natural_compare("", "n") < 0);
  CHECK(natural_compare("n1", "n1") == 0);
  CHECK(natural_compare("a99999999999999999999999", "a100000000000000000000000") < 0);
}

TEST_CASE("Names that count the same but are written differently keep a total order") {
  CHECK(natural_compare("n02", "n2") == -natural_compare("n2", "n02"));
  CHECK(natural_compare("n02", "n2") != 0);
}

TEST_CASE("The coordinator's node comes first, then node ranks, then the last order, then names") {
  auto by_name_10 = node(1, "n10");
  auto by_name_2 = node(2, "n2");
  auto last_1 = node(3, "z9");
  last_1.last_group_rank = 1;
  auto last_0 = node(4, "z8");
  last_0.last_group_rank = 0;
  auto given_7 = node(5, "a");
  given_7.node_rank = 7;
  auto given_3 = node(6, "b");
  given_3.node_rank = 3;
  auto host = node(7, "zz");
  host.hosts_coordinator = true;
  host.node_rank = 9;
  CHECK(order(assign_ranks({by_name_10, by_name_2, last_1, last_0, given_7, given_3, host}, 10)) ==
        std::vector<std::uint64_t>{7, 6, 5, 4, 3, 2, 1});
}

TEST_CASE("Ranks are prefix sums of different numbers of workers") {
  const auto ranked = assign_ranks({node(1, "n1", 4), node(2, "n2", 1), node(3, "n3", 3)}, 3);
  CHECK(ranked[0].world.base_rank == 0);
  CHECK(ranked[1].world.base_rank == 4);
  CHECK(ranked[2].world.base_rank == 5);
  for (const RankedNode& one : ranked) {
    CHECK(one.world.world_size == 8);
    CHECK(one.world.group_world_size == 3);
  }
}

TEST_CASE("Role ranks count the workers of the same role only") {
  auto a = node(1, "n1", 2);
  auto b = node(2, "n2", 3);
  b.role = "reader";
  auto c = node(3, "n3", 1);
  const auto ranked = assign_ranks({a, b, c}, 3);
  CHECK(ranked[0].world.role_base_rank == 0);
  CHECK(ranked[0].world.role_world_size == 3);
  CHECK(ranked[1].world.role_base_rank == 0);
  CHECK(ranked[1].world.role_world_size == 3);
  CHECK(ranked[2].world.role_base_rank == 2);
  CHECK(ranked[2].world.base_rank == 5);
}

TEST_CASE("Of too many nodes the members of the last attempt stay, then the first in order") {
  auto member = node(1, "z");
  member.last_group_rank = 0;
  const auto ranked = assign_ranks({node(3, "n3"), node(2, "n2"), member}, 2);
  CHECK(order(ranked) == std::vector<std::uint64_t>{1, 2});
}

TEST_CASE("The coordinator's node is always in the world") {
  auto member = node(1, "a");
  member.last_group_rank = 0;
  auto host = node(2, "z");
  host.hosts_coordinator = true;
  CHECK(order(assign_ranks({member, host}, 1)) == std::vector<std::uint64_t>{2});
}
