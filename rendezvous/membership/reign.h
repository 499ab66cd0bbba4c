// Reign: what a coordinator does so that a successor may come after it, and so that it never goes
// on against one. Pure; membership asks it before it hands out a world.
//
//   - It goes on only while a quorum of the roster in use follows it (quorum.h).
//   - A world of other nodes than the roster in use is a new roster: first the standbys are told of
//     it, then a quorum of the roster in use prepares for it, and one of the new roster (which
//     starts its lease), then it is handed out. An attempt of an unchanged world needs none of
//     that.
//   - A plan that is dropped has used its number up. The very first one that standbys were told of
//     binds as a roster in use does, for they may go on with it.
// docs/failover.md says why that suffices.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/backing.h"
#include "rendezvous/membership/succession.h"

namespace ddprun {

/// Standbys that are kept up to date.
inline constexpr std::size_t kStandbysMax = 3;

class Reign {
 public:
  /// What is to be told to whom before the planned world may be handed out. Both empty: nothing.
  struct Plan {
    std::vector<NodeId> standbys;  ///< by place; each is to acknowledge the succession
    Succession succession;
  };

  /// `known` is what a successor took over; empty for a new job. With a roster before, both decide
  /// until a world is handed out. An elector 0 stands for a job that
  /// has no succession (one machine, static ranks): nothing is ever asked of anybody then.
  /// `first` is the number of the first attempt (Candidacy::first_attempt for a successor).
  Reign(Term term, ElectorId self, Succession known, AttemptNumber first);

  /// `past`: what a node that lost its coordinator remembers. A new coordinator that knows nothing
  /// goes on from there, once a quorum of that roster is here; one that knows the job ignores it.
  /// `former`: electors that its agent was before. They vote no more, as the dead; but a vote that
  /// one gave counts for its candidate until that one is given up, too, or dead: and so does each
  /// of several.
  void joined(NodeId node, ElectorId elector, const std::optional<Past>& past,
              const std::vector<FormerElector>& former = {});
  /// `died`: its agent is no more, so it votes for nobody: that is as good as following.
  void left(NodeId node, bool died = false);

  /// Whether enough of the roster in use are here; true before the first.
  [[nodiscard]] bool quorum_follows() const;
  /// Nodes have followed a coordinator of a later term: this one hands out nothing any more.
  [[nodiscard]] bool outdated() const { return outdated_; }
  /// The coordinator's own node is quorum enough.
  [[nodiscard]] bool needs_nobody() const;
  /// "2 of the 5 nodes of the last world are here, 3 are needed".
  [[nodiscard]] std::string quorum_text() const;

  /// `members` of the next world, in the order of their ranks, and `witnesses`. None: it may be
  /// handed out as it is. The plan before, if any, is dropped.
  std::optional<Plan> plan(const std::vector<NodeId>& members,
                           const std::vector<NodeId>& witnesses);
  [[nodiscard]] bool planning() const { return planned_.has_value(); }
  void drop_plan();

  enum class Step : std::uint8_t { wait, prepare, hand_out };
  /// For a plan without standbys.
  Step after_standbys();
  /// An acknowledgement of the succession, or of Prepare. `prepare`: all standbys know, everybody
  /// in who() is to prepare now. `hand_out`: the world may go out.
  Step standby_knows(NodeId node, RosterNumber roster);
  Step prepared(NodeId node, RosterNumber roster);
  [[nodiscard]] RosterNumber planned_number() const { return newest_roster_; }

  /// The world of the plan, or of the roster in use, was handed out.
  void handed_out(AttemptNumber attempt);

  /// The number that follows all that may have been handed out.
  [[nodiscard]] AttemptNumber next_attempt() const { return next_; }
  /// Those of the newest plan that are here.
  [[nodiscard]] const std::vector<NodeId>& standbys() const { return standbys_; }
  [[nodiscard]] const std::set<ElectorId>& dead() const { return backing_.dead(); }
  [[nodiscard]] Term term() const { return in_use_.term; }
  [[nodiscard]] const Succession& in_use() const { return in_use_; }
  [[nodiscard]] bool enabled() const { return number(self_) != 0; }

 private:
  /// Of a roster, those that have prepared for the plan, or need not (Backing::is_ours).
  [[nodiscard]] bool is_ours(ElectorId elector) const;
  [[nodiscard]] std::size_t ready_of(const Roster& roster) const;
  void count_ready();
  void one_ready(ElectorId elector);
  [[nodiscard]] bool keeps(const Roster& roster, std::size_t votes) const;
  [[nodiscard]] const Roster& basis() const;
  void note_term(Term followed);
  [[nodiscard]] std::size_t needed() const;
  [[nodiscard]] std::size_t deciders_here() const;

  ElectorId self_;
  Succession in_use_;  ///< its attempt: the newest that was handed out
  RosterNumber newest_roster_{};
  AttemptNumber next_{};
  std::map<NodeId, ElectorId> here_;
  Roster told_first_;        ///< until a world is handed out
  Roster inherited_before_;  ///< until a world is handed out
  Backing backing_;
  bool outdated_ = false;
  std::optional<Past> past_;  ///< the newest that was heard of, of a coordinator that knows nothing
  std::set<NodeId> of_past_;  ///< who is here of that roster
  std::vector<NodeId> standbys_;
  std::optional<Roster> planned_;
  std::set<NodeId> owe_;  ///< standbys that have not acknowledged the plan
  bool preparing_ = false;
  std::set<ElectorId> prepared_;
  /// ready_of() each of the rosters that the plan needs a quorum of.
  struct {
    std::size_t basis = 0;
    std::size_t before = 0;
    std::size_t planned = 0;
  } ready_;
};

}  // namespace ddprun
