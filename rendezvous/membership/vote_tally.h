// VoteTally: how many voters of its configurations stand behind a coordinator, kept up to date one
// change at a time: where ten thousand nodes come and go, none may cost a walk over all others.
// Pure; a part of Leadership, which says what it is for.
//
// A voter backs the coordinator when it is here, or when it followed and is dead: it will not
// vote for another one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rendezvous/membership/configuration.h"

namespace ddprun {

bool holds(const Configuration& configuration, VoterId voter);

/// How a voter that is here stands to the coordinator.
enum class VoterState : std::uint8_t {
  free,    ///< it follows, and has promised nothing to anybody else
  bound,   ///< it gave its word to another one, for a later term
  beyond,  ///< it has prepared for a configuration that this coordinator does not know
};

class VoteTally {
 public:
  /// Of a configuration. Those that are beyond are never counted.
  struct Count {
    std::size_t free = 0;   ///< that are here and free, or dead
    std::size_t bound = 0;  ///< that are here and bound
  };

  /// A voter may be here by two connections for a while; then the worse one counts.
  void came(VoterId voter, VoterState standing);
  void went(VoterId voter, VoterState standing);
  /// It has left already, and followed. Ignored when it is here by another connection.
  void died(VoterId voter);
  /// Other configurations decide. Linear in their size.
  void use(const std::vector<const Configuration*>& configurations);
  /// The dead of none of the configurations are forgotten.
  void forget_others();

  /// Of the configuration at this place of use().
  [[nodiscard]] Count count(std::size_t place) const { return counted_.at(place).count; }
  [[nodiscard]] bool is_dead(VoterId voter) const { return dead_.contains(voter); }
  [[nodiscard]] const std::set<VoterId>& dead() const { return dead_; }

 private:
  struct Counted {
    std::unordered_set<VoterId> configuration;
    Count count;
  };
  using Connections = std::array<int, 3>;  ///< by standing

  [[nodiscard]] bool in_any(VoterId voter) const;
  [[nodiscard]] Count weight(VoterId voter) const;
  template <class Change>
  void change(VoterId voter, Change apply);

  std::vector<Counted> counted_;
  std::unordered_map<VoterId, Connections> here_;
  std::set<VoterId> dead_;
};

}  // namespace ddprun
