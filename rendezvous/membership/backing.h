// Backing: how many electors of its rosters stand behind a coordinator, kept up to date one change
// at a time: where ten thousand nodes come and go, none may cost a walk over all others. Pure; a
// part of Reign, which says what it is for.
//
// An elector backs the coordinator when it is here, or when it followed and is dead: it will not
// vote for another one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rendezvous/membership/succession.h"

namespace ddprun {

bool holds(const Roster& roster, ElectorId elector);

/// How an elector that is here stands to the coordinator.
enum class Standing : std::uint8_t {
  free,    ///< it follows, and has promised nothing to anybody else
  bound,   ///< it gave its word to another one, for a later term
  beyond,  ///< it has prepared for a roster that this coordinator does not know
};

class Backing {
 public:
  /// Of a roster. Those that are beyond are never counted.
  struct Count {
    std::size_t free = 0;   ///< that are here and free, or dead
    std::size_t bound = 0;  ///< that are here and bound
  };

  /// An elector may be here by two connections for a while; then the worse one counts.
  void came(ElectorId elector, Standing standing);
  void went(ElectorId elector, Standing standing);
  /// It has left already, and followed. Ignored when it is here by another connection.
  void died(ElectorId elector);
  /// Other rosters decide. Linear in their size.
  void use(const std::vector<const Roster*>& rosters);
  /// The dead of none of the rosters are forgotten.
  void forget_others();

  /// Of the roster at this place of use().
  [[nodiscard]] Count count(std::size_t place) const { return counted_.at(place).count; }
  [[nodiscard]] bool is_dead(ElectorId elector) const { return dead_.contains(elector); }
  [[nodiscard]] const std::set<ElectorId>& dead() const { return dead_; }

 private:
  struct Counted {
    std::unordered_set<ElectorId> roster;
    Count count;
  };
  using Connections = std::array<int, 3>;  ///< by standing

  [[nodiscard]] bool in_any(ElectorId elector) const;
  [[nodiscard]] Count weight(ElectorId elector) const;
  template <class Change>
  void change(ElectorId elector, Change apply);

  std::vector<Counted> counted_;
  std::unordered_map<ElectorId, Connections> here_;
  std::set<ElectorId> dead_;
};

}  // namespace ddprun
