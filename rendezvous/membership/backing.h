// Backing: how many electors of a roster stand behind its coordinator, kept up to date one change
// at a time: where ten thousand nodes come and go, none may cost a walk over all others. Pure; a
// part of Reign, which says what it is for.
//
// An elector backs the coordinator when it is here, when it is dead, or when its agent gave it up
// and whoever it promised its vote to is dead, given up, nobody, or the coordinator itself: it will
// not vote for another one, nor can a vote that it gave be of use to one.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/membership/succession.h"

namespace ddprun {

bool holds(const Roster& roster, ElectorId elector);

class Backing {
 public:
  explicit Backing(ElectorId self) : self_(self) {}

  /// An elector may be here by two connections for a while.
  void came(ElectorId elector);
  void went(ElectorId elector);
  void died(ElectorId elector);
  void gave_up(ElectorId elector, ElectorId promised_to);
  /// Another roster is in use: all that concerns electors of none but older ones is forgotten, but
  /// not who is here. Linear in its size.
  void use(const Roster& roster);

  /// Of the roster in use.
  [[nodiscard]] std::size_t count() const { return count_; }
  /// Without looking at who is here.
  [[nodiscard]] bool is_ours(ElectorId elector) const;
  [[nodiscard]] const std::set<ElectorId>& dead() const { return dead_; }

 private:
  [[nodiscard]] std::size_t weight(ElectorId elector) const;
  [[nodiscard]] std::size_t weight_with_promisers(ElectorId elector) const;
  template <class Change>
  void change(ElectorId elector, Change apply);

  ElectorId self_;
  std::unordered_set<ElectorId> roster_;  ///< in use
  std::size_t count_ = 0;
  std::unordered_map<ElectorId, int> here_;
  std::set<ElectorId> dead_;
  std::map<ElectorId, ElectorId> given_up_;            ///< and whom they promised
  std::map<ElectorId, std::set<ElectorId>> promised_;  ///< the same the other way round
};

}  // namespace ddprun
