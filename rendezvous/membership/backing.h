// Backing: how many electors of its rosters stand behind a coordinator, kept up to date one change
// at a time: where ten thousand nodes come and go, none may cost a walk over all others. Pure; a
// part of Reign, which says what it is for.
//
// An elector backs the coordinator when it is here, when it is dead, or when its agent gave it up
// and each of those whom it promised its vote to is dead, given up, nobody, the coordinator itself,
// or here: it will not vote for another one, nor can a vote that it gave be of use to one. (Who
// follows stands for nothing; should it stand again, it will need votes of a later term.)
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "rendezvous/membership/succession.h"

namespace ddprun {

bool holds(const Roster& roster, ElectorId elector);

class Backing {
 public:
  /// The roster that decides, and the one that decides beside it; either may be empty.
  enum class Which : std::uint8_t { basis, beside };

  explicit Backing(ElectorId self) : self_(self) {}

  /// An elector may be here by two connections for a while.
  void came(ElectorId elector);
  void went(ElectorId elector);
  void died(ElectorId elector);
  /// Of several promises of one elector each counts.
  void gave_up(ElectorId elector, ElectorId promised_to);
  /// Other rosters decide. Linear in their size.
  void use(const Roster& basis, const Roster& beside);
  /// All that concerns electors of neither roster is forgotten, but not who is here.
  void forget_others();

  [[nodiscard]] std::size_t count(Which which) const { return at(which).count; }
  /// Without looking at who is here, but for the candidates that it voted for: `follows` says of
  /// one whether it does for sure.
  [[nodiscard]] bool is_ours(ElectorId elector,
                             const std::function<bool(ElectorId)>& follows) const;
  /// Somebody who was given up voted for it.
  [[nodiscard]] bool has_votes(ElectorId candidate) const { return promised_.contains(candidate); }
  [[nodiscard]] const std::set<ElectorId>& dead() const { return dead_; }

 private:
  struct Counted {
    std::unordered_set<ElectorId> roster;
    std::size_t count = 0;
  };
  using Counts = std::array<std::size_t, 2>;

  [[nodiscard]] const Counted& at(Which which) const {
    return counted_[static_cast<std::size_t>(which)];
  }
  [[nodiscard]] bool in_any(ElectorId elector) const;
  [[nodiscard]] bool backs(ElectorId elector) const;
  void add_weight(ElectorId elector, Counts& counts) const;
  [[nodiscard]] Counts weight_with_promisers(ElectorId elector) const;
  template <class Change>
  void change(ElectorId elector, Change apply);

  ElectorId self_;
  std::array<Counted, 2> counted_;
  std::unordered_map<ElectorId, int> here_;
  std::set<ElectorId> dead_;
  std::map<ElectorId, std::set<ElectorId>> given_up_;  ///< and whom they promised
  std::map<ElectorId, std::set<ElectorId>> promised_;  ///< the same the other way round
};

}  // namespace ddprun
