// Election: a standby's way to becoming the coordinator, after its own was lost. Pure: votes and
// time come in, what to do goes out. docs/failover.md says why it is safe.
//
//   waiting --my turn--> asking --a quorum granted--> fencing --the old world is quiet--> leading
//                        asking --a later term is about--> waiting (a turn later)
//                        asking --somebody knows a newer configuration--> deferring
//   deferring --nobody came--> waiting
//
// Who has not granted is asked again in fencing, too: once all have seen the coordinator die, the
// old world is quiet.
//
// Where the job is over, no quorum is needed any more once everybody whose process is still there
// has granted, and one of these has prepared for the end: who was told of it may be gone already,
// and the others wait to hear of it.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/voter.h"

namespace ddprun {

struct ElectionTimeouts {
  /// Standbys take turns, so that they do not split the votes: the nth begins n times this later.
  std::chrono::nanoseconds turn = std::chrono::milliseconds(200);
  /// Those who have not granted are asked again after pauses that double up to this: a voter ends
  /// its workers first, and that may take milliseconds or much longer.
  std::chrono::nanoseconds ask_again = std::chrono::milliseconds(100);
  /// By this long after the coordinator lost its quorum none of its workers lives.
  std::chrono::nanoseconds fence{};

  static ElectionTimeouts of(std::chrono::nanoseconds heartbeat_timeout) {
    return {heartbeat_timeout / 10, heartbeat_timeout / 20, heartbeat_timeout};
  }
};

class Election {
 public:
  enum class State : std::uint8_t { waiting, asking, fencing, leading, deferring };

  /// Begins when this standby has lost its coordinator. `place` among the standbys, from 0.
  Election(VoterId self, ReplicatedState known, std::size_t place, ElectionTimeouts times,
           Term newest, Instant now);

  /// To be called when next_deadline() has come. True: ask everybody in voters() (itself too)
  /// for request(), except those that granted it.
  [[nodiscard]] bool time_passed(Instant now);
  void on_vote(Instant now, VoterId from, const Vote& vote);
  /// The process of this voter is no more, for certain.
  void on_gone(Instant now, VoterId from);
  /// This node's own voter gave its word to another for this term: the votes of an earlier one
  /// are not a quorum any more, and that one comes first.
  void outvoted(Instant now, Term term);
  /// True once: it has asked for so long that voters must be missing. Without a majority nothing
  /// happens until the join timeout, so people have to hear of it.
  [[nodiscard]] bool lacks_voters(Instant now);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] VoteRequest request() const {
    return {term_, self_, known_.log_position(), known_.attempt};
  }
  [[nodiscard]] bool granted_by(VoterId voter) const { return votes_.contains(voter); }
  [[nodiscard]] std::size_t votes() const { return votes_.size(); }
  /// All configurations' voters, each once. The lost coordinator is one: it may live, and be none
  /// any more.
  [[nodiscard]] const std::vector<VoterId>& voters() const { return voters_; }
  /// In State::leading: the number for the next attempt. A coordinator may have handed out one more
  /// than anybody here knows (not two: for the second it would have needed a quorum that had left
  /// it), and so may each of those between it and this one: for every term one number is left out.
  [[nodiscard]] AttemptNumber first_attempt() const;
  /// In State::leading: what it goes on with. A configuration that may have been used decides, and
  /// as long as that is not certain those before it decide as well; one that was not is left out.
  [[nodiscard]] ReplicatedState inheritance() const;
  /// In State::leading: from here on no node works for the lost coordinator, however far away it
  /// is. All voters may have seen the death of the coordinator, and not waited for that: a node
  /// that is cut off, and no voter, works on until its lease is over.
  [[nodiscard]] Instant leases_end() const;
  /// "2 of 5 nodes were reached, 3 are needed", for the people who wait; or "2 of 5 nodes are left,
  /// and the job is over".
  [[nodiscard]] std::string progress_text() const;

 private:
  struct Granted {
    AttemptNumber attempt{};
    Term attempt_term{};
  };

  /// The votes of one configuration's voters, counted one by one: there may be ten thousand.
  struct Tally {
    std::size_t votes = 0;
    bool in_use = false;             ///< somebody was assigned a world of it
    ConfigurationNumber prepared{};  ///< the newest that any of them has prepared for
    /// And that any has of others than the coordinator that planned it.
    ConfigurationNumber prepared_by_others{};
    /// When the first voters that make a quorum had lost the coordinator; the last of them on
    /// top.
    std::priority_queue<Instant> lost;
  };

  void forget_votes();
  void count(VoterId from, const Vote& vote, Instant lost_at);
  [[nodiscard]] bool gains(std::size_t place) const;
  [[nodiscard]] bool is_void(std::size_t place) const;
  [[nodiscard]] std::vector<std::size_t> deciding() const;
  [[nodiscard]] bool has_quorum() const;
  [[nodiscard]] bool others_are_gone() const;
  [[nodiscard]] bool half_granted() const;
  void fence_if_granted(Instant now);
  [[nodiscard]] bool all_saw_close(std::size_t place) const;
  [[nodiscard]] Instant quiet_from() const;
  void defer(Instant now);
  void refused_for_another(Instant now, VoterId from, const Vote& vote);
  void note_close(VoterId from, const Vote& vote);
  void begin_again(Term newest, Instant now);

  VoterId self_;
  ReplicatedState known_;
  std::size_t place_;
  ElectionTimeouts times_;
  std::vector<VoterId> voters_;
  std::unordered_set<VoterId> in_voters_;
  State state_ = State::waiting;
  Term term_{};
  Term newest_term_{};
  bool has_deferred_ = false;         ///< and nobody who knows more has come
  std::map<VoterId, Granted> votes_;  ///< of term_, and what follows from them:
  std::vector<Tally> tallies_;  ///< of all configurations, as ReplicatedState::configurations()
  std::set<VoterId> promised_;  ///< of the voters, for term_, to another
  /// Of the voters that gave their word for term_, to whomever: who saw the coordinator's side
  /// close the connection. None of them has workers any more.
  std::set<VoterId> saw_close_;
  std::set<VoterId> gone_;  ///< of the voters, and have not granted
  Instant deadline_{};      ///< of state_
  Instant ask_at_{};        ///< those who have not granted, while asking or fencing
  Instant ask_pause_{};
  Instant lacking_from_;  ///< the latest time at which connected voters have elected one
  bool said_lacking_ = false;
};

}  // namespace ddprun
