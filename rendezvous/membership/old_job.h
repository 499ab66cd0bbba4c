// OldJob: the job that other coordinators ran before this one, as far as the nodes that are here
// remember it: its last coordinator, its newest world, and which nodes of that world came. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <set>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/voters_here.h"

namespace ddprun {

class OldJob {
 public:
  /// The newest copy of the replicated state names its coordinator.
  void was_led_by(VoterId leader);
  /// That coordinator is no more. `died`: it led until then, and no other did after it.
  void leader_is_gone(bool died);
  [[nodiscard]] bool leader_is_gone() const { return leader_is_gone_; }
  [[nodiscard]] VoterId leader() const { return leader_; }
  [[nodiscard]] bool leader_died() const { return leader_died_; }

  /// A node remembers that it worked in that world. Of several worlds the newest attempt counts.
  void remembers(const Past& past);
  /// A node that was told of the world of this configuration, or was in it, saw its coordinator
  /// die.
  [[nodiscard]] bool saw_death_in(ConfigurationNumber configuration) const {
    return died_in_ == configuration;
  }
  [[nodiscard]] bool is_of_world(const Past& past) const {
    return past.group_rank && past.attempt == attempt_;
  }
  /// A connection of a node of that world came, or ended. `dead`: the voter was seen to die.
  void came(VoterId voter);
  void went(VoterId voter);
  void died(VoterId voter) { dead_.insert(voter); }

  /// Every node that may run workers of the last world is here, or is known to be dead.
  /// `configuration` is the newest that this coordinator knows; so many of its voters are here.
  [[nodiscard]] bool is_here(const Configuration& configuration, std::size_t voters_here) const;
  /// Those of `configuration` that are not here cannot make up a quorum. `leader_follows`: that
  /// coordinator is among `count.free`.
  [[nodiscard]] bool rest_is_no_quorum(const Configuration& configuration,
                                       const VotersHere::Count& count, bool leader_follows) const;

 private:
  VoterId leader_{};
  bool leader_is_gone_ = false;          ///< it was at this endpoint, or was seen to die
  bool leader_died_ = false;             ///< it was seen to die: it led until then
  AttemptNumber attempt_{};              ///< the newest that any node remembers
  ConfigurationNumber configuration_{};  ///< of that world
  ConfigurationNumber died_in_{};        ///< the newest whose coordinator was seen to die
  int others_ = 0;                       ///< nodes of that world, without its coordinator's own
  std::map<VoterId, int> here_;          ///< of these, with the number of their connections
  std::set<VoterId> dead_;               ///< of these
};

}  // namespace ddprun
