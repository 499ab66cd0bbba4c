// Leadership: what a coordinator replicates before it commits a world, so that a successor can take
// over and the old coordinator cannot continue beside it. Pure; membership asks it before it
// assigns a world.
//
// It is Raft (Ongaro's dissertation) for one replicated value, the ReplicatedState, with the state
// in memory: a voter is one life of one process. Of all nodes at most kVotersMax vote; the others
// are learners.
//
//   - The coordinator continues only while a quorum of the committed configuration follows it
//     (check quorum, section 6.2; quorum.h).
//   - A world of other nodes is a new configuration, and so is the first world of a leadership. It
//     is replicated to the voters of the old configuration and of the new one, and committed when a
//     quorum of each has acknowledged it (joint consensus, section 4.3). An acknowledgement counts
//     as a vote in the term of the configuration. An unchanged world needs no round.
//   - Voters that granted another candidate their vote may join. The next proposal uses a term
//     above all their promises. Where that candidate does not acknowledge the proposal, too, it may
//     lead, so a strict majority is needed.
//   - Numbers of abandoned proposals are never reused. The first proposal that is sent counts as
//     committed, because a voter may take over with it.
//
// A coordinator that begins without any state adopts the newest copy that a voter brings. It leads
// on by the same rules, and none of the voters that are missing can be elected without those that
// are here. docs/failover.md says why that suffices.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/configuration_log.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/old_job.h"
#include "rendezvous/membership/voters_here.h"

namespace ddprun {

/// A coordinator that nobody here saw die may have used attempts and terms that nobody here knows
/// of. So many numbers are left out; more would need that many restarts of one half of the voters,
/// alone.
inline constexpr std::uint32_t kUnknownMax = 100;

class Leadership {
 public:
  /// What is to be told to whom before the planned world may be handed out. Both empty: nothing.
  struct Plan {
    std::vector<NodeId> voters;  ///< in the order in which they stand; each is to acknowledge it
    ReplicatedState replicated;
  };

  /// `known` is what a successor took over; empty, but for the instance, for a new job. With
  /// configurations before, all of them decide until a world is handed out. A voter 0 stands for a
  /// job without failover (one machine, static ranks): nothing is ever asked of anybody then.
  /// `first` is the number of the first attempt (Election::first_attempt for a successor).
  Leadership(Term term, VoterId self, ReplicatedState known, AttemptNumber first,
             std::size_t voters_max = kVotersMax);

  /// Drops the plan, if any: who is here has changed. A coordinator that began without any state
  /// goes on from what this node remembers.
  void joined(NodeId node, VoterId voter, const Promise& promise, const std::optional<Past>& past,
              const std::optional<StateCopy>& copy = {});
  /// Drops the plan. `died`: its agent is no more, so it votes for nobody: that is as good as
  /// following.
  void left(NodeId node, bool died = false);

  /// Whether enough of those who decide are here; true before the first plan of a new job.
  [[nodiscard]] bool quorum_follows() const;
  /// Of a job that others ran before: every node that may run workers of its last world is here, or
  /// is known to be dead. True where this coordinator knows of no such job.
  [[nodiscard]] bool past_is_here() const;
  /// Here, and bound to nobody else: its contact counts.
  [[nodiscard]] bool is_free(NodeId node) const;
  /// A node has prepared for a newer configuration than this coordinator knows of, and without
  /// those who know of it there is no quorum: whoever made that configuration, or its voters, have
  /// to go on.
  [[nodiscard]] bool outdated() const;
  /// The coordinator's own node is quorum enough.
  [[nodiscard]] bool needs_nobody() const;
  /// "2 of the 5 nodes that decide for the job are here, 3 are needed".
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
  [[nodiscard]] bool planning() const { return proposal_.has_value(); }
  void drop_plan();

  /// The plan is committed: the world may be handed out.
  [[nodiscard]] bool committed() const;
  /// A voter keeps the state of this configuration, and gave its word for the term of it. True: the
  /// plan is committed by that.
  [[nodiscard]] bool acknowledged(NodeId node, ConfigurationNumber configuration);
  /// While planning().
  [[nodiscard]] const Configuration& planned() const { return proposal_->configuration; }
  [[nodiscard]] Term planned_term() const { return planned_term_; }

  /// The world of the plan, or of the configuration in use, was handed out. What other coordinators
  /// proposed before is void. True: a voter keeps such a configuration, and does not count before
  /// it was told and has acknowledged the one in use.
  bool handed_out(AttemptNumber attempt);

  /// The number that follows all that may have been handed out.
  [[nodiscard]] AttemptNumber next_attempt() const;
  /// Those of the newest plan that are here.
  [[nodiscard]] const std::vector<NodeId>& voters() const { return told_; }
  /// Of a coordinator that began without any state, and has planned nothing yet: the voters of the
  /// old job that are here, by their newest connections.
  [[nodiscard]] std::vector<NodeId> old_voters() const;
  /// It is a voter of the configuration in use. One that was away may have missed something.
  [[nodiscard]] bool votes(NodeId node) const;
  [[nodiscard]] const VotersHere& here() const { return here_; }
  /// It gives way to a leader of a later term than this, and asks one of an earlier term to give
  /// way. One that began without any state has raised its own term without a vote. So it stands for
  /// the newest that a node has brought, until no other can lead without voters that its plan was
  /// sent to.
  [[nodiscard]] Term stands_for() const;
  [[nodiscard]] const ReplicatedState& in_use() const { return in_use_; }
  /// The job is not of another instance any more: a world of it was announced, or a node that is
  /// here remembers it.
  [[nodiscard]] bool instance_is_settled() const {
    return !begins_ || old_job_ || !told_first_.voters.empty();
  }
  /// The voters of the configurations that decide, and of the one that was in use before them: who
  /// is not here of these may be looking for this coordinator.
  [[nodiscard]] std::vector<const Configuration*> acquainted() const;
  [[nodiscard]] bool enabled() const { return number(self_) != 0; }

 private:
  /// What was sent to the voters, until it is committed or dropped.
  struct Proposal {
    Configuration configuration;
    std::vector<NodeId> members;  ///< of the planned world, in the order of their ranks
    std::set<VoterId> acknowledged;
  };

  [[nodiscard]] bool begun() const { return !in_use_.configuration.voters.empty(); }
  [[nodiscard]] bool is_beyond(const VoterHere& here) const;
  void heard_of(const VoterHere& here);
  [[nodiscard]] bool is_of_old_world(const VoterHere& here) const;
  [[nodiscard]] bool knows_newest() const;
  void adopt(const StateCopy& copy);
  [[nodiscard]] bool decides(const Configuration& configuration,
                             const std::set<VoterId>* among) const;
  [[nodiscard]] std::vector<const Configuration*> deciders() const;
  [[nodiscard]] bool quorum_of(const std::set<VoterId>* among) const;
  [[nodiscard]] Term next_term() const;
  Plan announce(const std::vector<NodeId>& voters, const std::vector<NodeId>& members);

  VoterId self_;
  std::size_t voters_max_;
  /// Its attempt: the newest that was handed out. Before: what decides besides, until a world is.
  ReplicatedState in_use_;
  ConfigurationLog log_;
  std::optional<ConfigurationNumber> beyond_;  ///< that somebody here has prepared for
  AttemptNumber next_{};
  VotersHere here_;
  Configuration replaced_;         ///< by the one in use
  Configuration told_first_;       ///< until a world is handed out
  std::optional<OldJob> old_job_;  ///< until a world is handed out
  bool begins_ = false;            ///< it began without any state, and handed out no world
  Term remembered_term_{1};
  std::vector<NodeId> told_;
  bool has_planned_ = false;     ///< and handed out what it planned
  std::vector<NodeId> members_;  ///< of the world in use
  std::optional<Proposal> proposal_;
  Term planned_term_{};  ///< of the newest proposal
};

}  // namespace ddprun
