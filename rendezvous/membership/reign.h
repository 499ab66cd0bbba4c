// Reign: what a coordinator does so that a successor may come after it, and so that it never goes
// on against one. Pure; membership asks it before it hands out a world.
//
//   - It goes on only while a quorum of the roster in use follows it (quorum.h).
//   - A world of other nodes than the roster in use, and the first one of a reign, is a new roster:
//     first the standbys are told of it, then a quorum of the roster in use prepares for it, and
//     one of the new roster (which starts its lease), then it is handed out. An attempt of an
//     unchanged world needs none of that.
//   - Electors that gave their word to another (Pledge) come as they are. The next plan is one of a
//     term above all that they promised: to prepare for it is a vote in that term. As such a vote
//     may have been one for a successor that reigns, more than half are needed then, not half.
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

  /// `known` is what a successor took over; empty for a new job. With rosters before, all of them
  /// decide until a world is handed out. An elector 0 stands for a job that has no succession (one
  /// machine, static ranks): nothing is ever asked of anybody then.
  /// `first` is the number of the first attempt (Candidacy::first_attempt for a successor).
  Reign(Term term, ElectorId self, Succession known, AttemptNumber first);

  /// Drops the plan, if any: who is here has changed. `past`: what a node remembers. A new
  /// coordinator that knows nothing goes on from there, once a quorum of that roster is here; one
  /// that knows the job ignores it.
  void joined(NodeId node, ElectorId elector, const Pledge& pledge,
              const std::optional<Past>& past);
  /// Drops the plan. `died`: its agent is no more, so it votes for nobody: that is as good as
  /// following.
  void left(NodeId node, bool died = false);

  /// Whether enough of those who decide are here; true before the first plan.
  [[nodiscard]] bool quorum_follows() const;
  /// Here, and bound to nobody else: its contact counts.
  [[nodiscard]] bool is_free(NodeId node) const;
  /// A node has prepared for a newer roster than this coordinator knows of, and without those who
  /// know of it there is no quorum: whoever made that roster, or its standbys, have to go on.
  [[nodiscard]] bool outdated() const;
  /// The coordinator's own node is quorum enough.
  [[nodiscard]] bool needs_nobody() const;
  /// "2 of the 5 nodes of the last world are here, 3 are needed".
  [[nodiscard]] std::string quorum_text() const;

  /// `members` of the next world, in the order of their ranks, and `witnesses`. None: it may be
  /// handed out as it is. The plan before, if any, is dropped. Its term may be a later one, which
  /// becomes that of this reign when the world is handed out.
  std::optional<Plan> plan(const std::vector<NodeId>& members,
                           const std::vector<NodeId>& witnesses);
  /// The end of the job, as a plan of those who are here: once it may be handed out, no successor
  /// can hand out a world any more. None: the end may be told as it is, for nobody could go on.
  std::optional<Plan> plan_end(const std::vector<NodeId>& members,
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
  /// While planning().
  [[nodiscard]] const Roster& planned() const { return *planned_; }
  [[nodiscard]] Term planned_term() const { return planned_term_; }

  /// The world of the plan, or of the roster in use, was handed out.
  void handed_out(AttemptNumber attempt);

  /// The number that follows all that may have been handed out.
  [[nodiscard]] AttemptNumber next_attempt() const { return next_; }
  /// Those of the newest plan that are here.
  [[nodiscard]] const std::vector<NodeId>& standbys() const { return standbys_; }
  [[nodiscard]] const std::set<ElectorId>& dead() const { return backing_.dead(); }
  [[nodiscard]] Term term() const { return in_use_.term; }
  [[nodiscard]] const Succession& in_use() const { return in_use_; }
  /// The electors of the rosters that decide, and of the one that was in use before them: who is
  /// not here of these may be looking for this coordinator.
  [[nodiscard]] std::vector<const Roster*> acquainted() const;
  [[nodiscard]] bool enabled() const { return number(self_) != 0; }

 private:
  struct Here {
    ElectorId elector{};
    Standing standing = Standing::free;
    Term above{};  ///< the term of a plan for it has to be a later one
  };
  using Count = Backing::Count;

  [[nodiscard]] bool begun() const { return !in_use_.roster.electors.empty(); }
  [[nodiscard]] bool knows(RosterNumber roster) const;
  [[nodiscard]] bool is_own(RosterNumber roster) const;
  [[nodiscard]] bool is_ours(const Pledge& pledge) const;
  [[nodiscard]] Standing standing_of(const Pledge& pledge, const std::optional<Past>& past) const;
  void forget_past();
  void note_past(NodeId node, const Here& here, const Pledge& pledge, const Past& past);
  [[nodiscard]] std::size_t& past_count(Standing standing);
  void count_ready(const Here& here);
  void release(Here& here);
  [[nodiscard]] bool decides(const Roster& roster, const Count& count) const;
  [[nodiscard]] bool past_decides(const Count& count) const;
  [[nodiscard]] const Roster& basis() const;
  [[nodiscard]] std::vector<const Roster*> deciders() const;
  [[nodiscard]] Term next_term() const;
  [[nodiscard]] Roster roster_of(const std::vector<NodeId>& members,
                                 const std::vector<NodeId>& witnesses) const;
  Plan announce(Roster roster, const std::vector<NodeId>& members,
                const std::vector<NodeId>& witnesses);

  ElectorId self_;
  /// Its attempt: the newest that was handed out. Before: what decides besides, until a world is.
  Succession in_use_;
  RosterNumber newest_roster_{};
  Horizon horizon_;                     ///< besides its own plans
  std::set<Term> own_terms_;            ///< in which it has planned
  std::optional<RosterNumber> beyond_;  ///< that somebody here has prepared for
  AttemptNumber next_{};
  std::map<NodeId, Here> here_;
  Roster replaced_;    ///< by the one in use
  Roster told_first_;  ///< until a world is handed out
  Backing backing_;
  std::optional<Past> past_;  ///< the newest that was heard of, of a coordinator that knows nothing
  std::set<NodeId> of_past_;  ///< who is here of that roster
  std::set<ElectorId> past_dead_;  ///< who was here of that roster, and is dead
  Count past_here_;                ///< of_past_, counted
  std::vector<NodeId> standbys_;
  bool has_planned_ = false;  ///< and handed out what it planned
  std::optional<Roster> planned_;
  Term planned_term_{};   ///< of the newest plan
  std::set<NodeId> owe_;  ///< standbys that have not acknowledged the plan
  bool preparing_ = false;
  std::set<ElectorId> prepared_;
  /// Those who have prepared, or need not, of all that the plan needs a quorum of.
  struct {
    std::vector<Count> deciders;
    Count past;
    std::size_t planned = 0;
  } ready_;
};

}  // namespace ddprun
