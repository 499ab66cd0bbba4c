// Candidacy: a standby's way to becoming the coordinator, after its own was lost. Pure: votes and
// time come in, what to do goes out. docs/failover.md says why it is safe.
//
//   waiting --my turn--> asking --a quorum granted--> fencing --the old world is quiet--> leading
//                        asking --a later term is about--> waiting (a turn later)
//                        asking --somebody knows a newer roster--> deferring (to who knows it)
//   deferring --nobody came--> waiting
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

#include "rendezvous/membership/elector.h"
#include "rendezvous/membership/event.h"
#include "rendezvous/membership/succession.h"

namespace ddprun {

struct CandidacyTimes {
  /// Standbys take turns, so that they do not split the votes: the nth begins n times this later.
  std::chrono::nanoseconds turn = std::chrono::milliseconds(200);
  /// Those who have not granted are asked again this often.
  std::chrono::nanoseconds ask_again = std::chrono::milliseconds(100);
  /// By this long after the coordinator lost its quorum none of its workers lives.
  std::chrono::nanoseconds fence{};

  static CandidacyTimes of(std::chrono::nanoseconds heartbeat_timeout) {
    return {heartbeat_timeout / 10, heartbeat_timeout / 20, heartbeat_timeout};
  }
};

class Candidacy {
 public:
  enum class State : std::uint8_t { waiting, asking, fencing, leading, deferring };

  /// Begins when this standby has lost its coordinator. `place` among the standbys, from 0.
  Candidacy(ElectorId self, Succession known, std::size_t place, CandidacyTimes times, Term newest,
            Instant now);

  /// To be called when next_deadline() has come. True: ask everybody in electorate() (itself too)
  /// for request(), except those that granted it.
  [[nodiscard]] bool time_passed(Instant now);
  void on_vote(Instant now, ElectorId from, const Vote& vote);
  /// The process of this elector is no more, for certain.
  void on_gone(Instant now, ElectorId from);
  /// This node's own elector gave its word to another for this term: the votes of an earlier one
  /// are not a quorum any more, and that one comes first.
  void outvoted(Instant now, Term term);
  [[nodiscard]] std::optional<Instant> next_deadline() const;

  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] VoteRequest request() const { return {term_, self_, known_.horizon()}; }
  [[nodiscard]] bool granted_by(ElectorId elector) const { return votes_.contains(elector); }
  [[nodiscard]] std::size_t votes() const { return votes_.size(); }
  /// All rosters' electors, each once. The lost coordinator is one: it may live, and be none any
  /// more.
  [[nodiscard]] const std::vector<ElectorId>& electorate() const { return electorate_; }
  /// In State::leading: the number for the next attempt. A coordinator may have handed out one more
  /// than anybody here knows (not two: for the second it would have needed a quorum that had left
  /// it), and so may each of those between it and this one: for every term one number is left out.
  [[nodiscard]] AttemptNumber first_attempt() const;
  /// In State::leading: what it goes on with. A roster that may have been used decides, and as long
  /// as that is not certain those before it decide as well; one that was not is left out.
  [[nodiscard]] Succession inheritance() const;
  /// "2 of 5 nodes were reached, 3 are needed", for the people who wait; or "2 of 5 nodes are left,
  /// and the job is over".
  [[nodiscard]] std::string progress_text() const;

 private:
  struct Granted {
    AttemptNumber attempt{};
    Term attempt_term{};
  };

  /// The votes of one roster's electors, counted one by one: there may be ten thousand.
  struct Tally {
    std::size_t votes = 0;
    std::size_t saw_close = 0;  ///< of others than the lost coordinator
    bool in_use = false;        ///< somebody was assigned a world of it
    RosterNumber prepared{};    ///< the newest that any of them has prepared for
    /// When the first electors that make a quorum had lost the coordinator; the last of them on
    /// top.
    std::priority_queue<Instant> lost;
  };

  void forget_votes();
  void count(ElectorId from, const Vote& vote, Instant lost_at);
  [[nodiscard]] bool gains(std::size_t place) const;
  [[nodiscard]] bool is_void(std::size_t place) const;
  [[nodiscard]] std::vector<std::size_t> deciding() const;
  [[nodiscard]] bool has_quorum() const;
  [[nodiscard]] bool others_are_gone() const;
  void fence_if_granted(Instant now);
  [[nodiscard]] bool all_saw_close(std::size_t place) const;
  [[nodiscard]] Instant quiet_from() const;
  void defer(Instant now);
  void begin_again(Term newest, Instant now);

  ElectorId self_;
  Succession known_;
  std::size_t place_;
  CandidacyTimes times_;
  std::vector<ElectorId> electorate_;
  std::unordered_set<ElectorId> in_electorate_;
  State state_ = State::waiting;
  Term term_{};
  Term newest_term_{};
  bool has_deferred_ = false;           ///< and nobody who knows more has come
  std::map<ElectorId, Granted> votes_;  ///< of term_, and what follows from them:
  std::vector<Tally> tallies_;          ///< of all rosters, as Succession::rosters()
  std::set<ElectorId> gone_;            ///< of the electorate, and have not granted
  Instant deadline_{};
};

}  // namespace ddprun
