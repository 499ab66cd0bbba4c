// Leadership: what a coordinator replicates before it commits a world, so that a successor can take
// over and the old coordinator cannot continue beside it. Pure; membership asks it before it
// assigns a world.
//
//   - The coordinator continues only while a quorum of the committed configuration follows it
//     (quorum.h).
//   - A world of other nodes is a new configuration, and so is the first world of a leadership.
//     It is replicated to the standbys, then prepared by a quorum of the old configuration and by
//     one of the new (which starts its lease), then committed. An unchanged world needs neither.
//   - Voters that promised another candidate may join. The next proposal uses a term above all
//     their promises, and preparing it counts as a vote. It then needs a strict majority, because
//     the earlier promise may have elected somebody.
//   - Numbers of abandoned proposals are never reused. The first proposal sent to a standby counts
//     as committed, because a standby may take over with it.
// docs/failover.md says why that suffices.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/vote_tally.h"

namespace ddprun {

/// Standbys that are kept up to date.
inline constexpr std::size_t kStandbysMax = 3;

class Leadership {
 public:
  /// What is to be told to whom before the planned world may be handed out. Both empty: nothing.
  struct Plan {
    std::vector<NodeId> standbys;  ///< by place; each is to acknowledge the state
    ReplicatedState replicated;
  };

  /// `known` is what a successor took over; empty for a new job. With configurations before, all of
  /// them decide until a world is handed out. A voter 0 stands for a job without failover (one
  /// machine, static ranks): nothing is ever asked of anybody then.
  /// `first` is the number of the first attempt (Election::first_attempt for a successor).
  Leadership(Term term, VoterId self, ReplicatedState known, AttemptNumber first);

  /// Drops the plan, if any: who is here has changed. `past`: what a node remembers. A new
  /// coordinator that knows nothing goes on from there, once a quorum of that configuration is
  /// here; one that knows the job ignores it.
  void joined(NodeId node, VoterId voter, const Promise& promise, const std::optional<Past>& past);
  /// Drops the plan. `died`: its agent is no more, so it votes for nobody: that is as good as
  /// following.
  void left(NodeId node, bool died = false);

  /// Whether enough of those who decide are here; true before the first plan.
  [[nodiscard]] bool quorum_follows() const;
  /// Of a job that others ran before: every node that may run workers of its last world is here, or
  /// is known to be dead. True where this coordinator knows of no such job.
  [[nodiscard]] bool past_is_here() const;
  /// Here, and bound to nobody else: its contact counts.
  [[nodiscard]] bool is_free(NodeId node) const;
  /// A node has prepared for a newer configuration than this coordinator knows of, and without
  /// those who know of it there is no quorum: whoever made that configuration, or its standbys,
  /// have to go on.
  [[nodiscard]] bool outdated() const;
  /// The coordinator's own node is quorum enough.
  [[nodiscard]] bool needs_nobody() const;
  /// "2 of the 5 nodes of the last world are here, 3 are needed".
  [[nodiscard]] std::string quorum_text() const;

  /// `members` of the next world, in the order of their ranks, and `witnesses`. None: it may be
  /// handed out as it is. The plan before, if any, is dropped. Its term may be a later one, which
  /// becomes that of this leadership when the world is handed out.
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
  /// An acknowledgement of the state, or of Prepare. `prepare`: all standbys know, everybody
  /// in who() is to prepare now. `hand_out`: the world may go out.
  Step standby_knows(NodeId node, ConfigurationNumber configuration);
  Step prepared(NodeId node, ConfigurationNumber configuration);
  /// While planning().
  [[nodiscard]] const Configuration& planned() const { return *planned_; }
  [[nodiscard]] Term planned_term() const { return planned_term_; }

  /// The world of the plan, or of the configuration in use, was handed out.
  void handed_out(AttemptNumber attempt);

  /// The number that follows all that may have been handed out.
  [[nodiscard]] AttemptNumber next_attempt() const { return next_; }
  /// Those of the newest plan that are here.
  [[nodiscard]] const std::vector<NodeId>& standbys() const { return standbys_; }
  [[nodiscard]] const std::set<VoterId>& dead() const { return tally_.dead(); }
  [[nodiscard]] Term term() const { return in_use_.term; }
  [[nodiscard]] const ReplicatedState& in_use() const { return in_use_; }
  /// The voters of the configurations that decide, and of the one that was in use before them: who
  /// is not here of these may be looking for this coordinator.
  [[nodiscard]] std::vector<const Configuration*> acquainted() const;
  [[nodiscard]] bool enabled() const { return number(self_) != 0; }

 private:
  struct Here {
    VoterId voter{};
    VoterState standing = VoterState::free;
    Term above{};  ///< the term of a plan for it has to be a later one
  };
  using Count = VoteTally::Count;

  [[nodiscard]] bool begun() const { return !in_use_.configuration.voters.empty(); }
  [[nodiscard]] bool knows(ConfigurationNumber configuration) const;
  [[nodiscard]] bool is_own(ConfigurationNumber configuration) const;
  [[nodiscard]] bool is_ours(const Promise& promise) const;
  [[nodiscard]] VoterState standing_of(const Promise& promise,
                                       const std::optional<Past>& past) const;
  void forget_past();
  void note_past(NodeId node, const Here& here, const Promise& promise, const Past& past);
  [[nodiscard]] bool past_leader_is_gone() const;
  [[nodiscard]] bool is_of_past(NodeId node, VoterId voter) const;
  [[nodiscard]] std::size_t& past_count(VoterState standing);
  void count_ready(const Here& here);
  void release(Here& here);
  [[nodiscard]] bool decides(const Configuration& configuration, const Count& count) const;
  [[nodiscard]] AttemptNumber newest_attempt() const;
  [[nodiscard]] bool past_decides(const Count& count) const;
  [[nodiscard]] const Configuration& basis() const;
  [[nodiscard]] std::vector<const Configuration*> deciders() const;
  [[nodiscard]] Term next_term() const;
  [[nodiscard]] Configuration configuration_of(const std::vector<NodeId>& members,
                                               const std::vector<NodeId>& witnesses) const;
  [[nodiscard]] std::vector<NodeId> choose_standbys(const std::vector<NodeId>& members,
                                                    const std::vector<NodeId>& witnesses) const;
  Plan announce(Configuration configuration, const std::vector<NodeId>& members,
                const std::vector<NodeId>& witnesses);

  VoterId self_;
  /// Its attempt: the newest that was handed out. Before: what decides besides, until a world is.
  ReplicatedState in_use_;
  ConfigurationNumber newest_configuration_{};
  LogPosition log_position_;                   ///< besides its own plans
  std::set<Term> own_terms_;                   ///< in which it has planned
  std::optional<ConfigurationNumber> beyond_;  ///< that somebody here has prepared for
  AttemptNumber next_{};
  std::map<NodeId, Here> here_;
  Configuration replaced_;    ///< by the one in use
  Configuration told_first_;  ///< until a world is handed out
  VoteTally tally_;
  std::optional<Past> past_;  ///< the newest that was heard of, of a coordinator that knows nothing
  bool past_saw_close_ = false;  ///< of its coordinator, somebody here
  /// Voters that are here of that configuration, and their connections; the newest one's counts.
  std::map<VoterId, std::set<NodeId>> of_past_;
  std::set<VoterId> past_dead_;  ///< who was here of that configuration, and is dead
  Count past_here_;              ///< of_past_, counted
  std::vector<NodeId> standbys_;
  bool has_planned_ = false;  ///< and handed out what it planned
  std::optional<Configuration> planned_;
  Term planned_term_{};   ///< of the newest plan
  std::set<NodeId> owe_;  ///< standbys that have not acknowledged the plan
  bool preparing_ = false;
  std::set<VoterId> prepared_;
  /// Those who have prepared, or need not, of all that the plan needs a quorum of.
  struct {
    std::vector<Count> deciders;
    Count past;
    std::size_t planned = 0;
  } ready_;
};

}  // namespace ddprun
