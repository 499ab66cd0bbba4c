// A Leadership for tests: node i has voter 100 + i, and node 1 leads.
#pragma once

#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "rendezvous/membership/leadership.h"

namespace ddprun {

constexpr NodeId n(std::uint64_t id) {
  return NodeId{id};
}
/// Node i has voter 100 + i.
constexpr VoterId e(std::uint64_t id) {
  return VoterId{100 + id};
}

constexpr ConfigurationNumber configuration(std::uint32_t term, std::uint32_t count) {
  return make_configuration(Term{term}, e(1), count);
}
/// Gave its word to another.
inline Promise promised(std::uint32_t term, VoterId to, ConfigurationNumber seen) {
  return {Term{term}, to, seen, {to}};
}

/// The first coordinator, on node 1, with these nodes here.
inline Leadership new_job(int nodes, std::size_t voters_max = kVotersMax) {
  Leadership leadership(Term{1}, e(1), {}, AttemptNumber{0}, voters_max);
  for (int i = 1; i <= nodes; ++i) {
    const auto id = static_cast<std::uint64_t>(i);
    leadership.joined(n(id), e(id), {}, std::nullopt);
  }
  return leadership;
}

inline std::vector<NodeId> nodes(int count) {
  std::vector<NodeId> all;
  for (int i = 1; i <= count; ++i) {
    all.push_back(n(static_cast<std::uint64_t>(i)));
  }
  return all;
}

/// Voters acknowledge a plan one after the other, and the world is handed out. Returns how many.
inline int hand_out(Leadership& leadership, const std::vector<NodeId>& members,
                    std::uint32_t attempt) {
  const auto plan = leadership.plan(members, {});
  REQUIRE(plan);
  int asked = 0;
  while (!leadership.acknowledged(plan->voters.at(static_cast<std::size_t>(asked)),
                                  plan->replicated.configuration.number)) {
    ++asked;
  }
  leadership.handed_out(AttemptNumber{attempt});
  return asked + 1;
}
inline void hand_out(Leadership& leadership, int count, std::uint32_t attempt) {
  (void)hand_out(leadership, nodes(count), attempt);
}

}  // namespace ddprun
