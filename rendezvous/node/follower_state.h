// FollowerState: what an agent keeps of its job by the word of its coordinators: the newest term,
// whom it may vote for, a voter's copy of the replicated state, and its last world. Pure.
#pragma once

#include <optional>

#include "rendezvous/membership/command.h"
#include "rendezvous/membership/last_known_state.h"
#include "rendezvous/membership/voter.h"
#include "rendezvous/protocol/message.h"

namespace ddprun {

class FollowerState {
 public:
  /// `failover`: it takes part in elections, and remembers its world for the next coordinator.
  explicit FollowerState(bool failover) : failover_(failover) {}

  /// A coordinator accepted this node, which follows it from here on.
  void follows(const message::Accepted& accepted);
  /// The coordinator is in this agent; its term, and this agent's own voter.
  void leads(Term term, VoterId self);
  /// It leads no more. `so_far`: the accounts of the job, which it may have stored nowhere else.
  void led_until(Instant now, SharedSummary so_far);
  /// The coordinator was last there at `contact`. This node is free to vote for another one.
  void lost(Instant now, Instant contact, bool saw_close,
            std::chrono::milliseconds heartbeat_timeout);

  /// The coordinator said so, at `now`. True, of a VoterState: it is stored from here on.
  void told(const message::Accepted& order, Instant now);
  bool told(const message::VoterState& order, Instant now);
  void told(const message::Story& order, Instant now);
  void told(const message::MoreNodes& order, Instant now);
  void told(const message::Assigned& order, Instant now);
  void told(const message::TellWorld& order, Instant now);

  [[nodiscard]] Voter& voter() { return voter_; }
  [[nodiscard]] const Voter& voter() const { return voter_; }
  /// The newest term that this node really followed or led.
  [[nodiscard]] Term term() const { return term_; }
  /// The coordinator of that term.
  [[nodiscard]] VoterId leader() const { return leader_; }
  /// Of a voter: what it would take over with.
  [[nodiscard]] const std::optional<message::VoterState>& stored() const { return stored_; }
  /// When the newest of stored() came.
  [[nodiscard]] Instant stored_at() const { return stored_at_; }
  /// The last world that it was part of, or was told of.
  [[nodiscard]] const std::optional<Past>& past() const { return memory_.past(); }
  /// It was in no world and has no vote. Also true of a node that has just started.
  [[nodiscard]] bool is_spare() const { return !stored_ && (!past() || !past()->group_rank); }
  /// How many nodes its last world had without the coordinator's own, if that was the attempt of
  /// `state` or a later one.
  [[nodiscard]] std::optional<int> others_since(const ReplicatedState& state) const;
  /// Puts what it knows of the job since into a state that was kept elsewhere: the newest attempt,
  /// that restarts were used, and all accounts, if it was the last to lead. Returns how long ago
  /// the accounts were true; none: it does not know.
  std::optional<std::chrono::nanoseconds> update(message::VoterState& state, Instant now) const;
  /// Of the job that it was part of, or 0.
  [[nodiscard]] JobInstance instance() const;
  /// Its coordinator, or the state that it stores, is of that instance.
  [[nodiscard]] bool follows_instance(JobInstance instance) const;
  /// All that the next coordinator has to know of it, into a hello.
  void fill(NodeDescription& node) const;

 private:
  void world_runs(const Past& world);

  bool failover_;
  Voter voter_;
  LastKnownState memory_;
  Term term_{};
  VoterId leader_{};
  JobInstance instance_{};  ///< as its coordinator said at first
  std::optional<message::VoterState> stored_;
  Instant stored_at_{};
  // Of the instance of past():
  std::optional<Instant> job_began_;
  int restarts_used_ = 0;
  /// Since a coordinator in this agent stepped down.
  struct Led {
    AttemptNumber attempt{};
    SharedSummary so_far;
    Instant at{};
  };
  std::optional<Led> led_;
};

}  // namespace ddprun
