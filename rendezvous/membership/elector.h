// Elector: one agent's vote. Pure.
//
// An agent follows one coordinator per term. While it follows, it grants nothing; once its
// coordinator is lost, it grants one candidate per term, and never one that knows less of the job
// than itself. Granting binds: what a coordinator of an older term says is not obeyed any more.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/succession.h"

namespace ddprun {

struct VoteRequest {
  Term term{};
  ElectorId candidate{};
  RosterNumber roster{};  ///< the newest that the candidate knows
};

enum class VoteVerdict : std::uint8_t {
  granted,
  follows,   ///< it has a coordinator
  promised,  ///< it gave its word to another for this term or a later one
  newer,     ///< it knows of a newer roster than the candidate
};

struct Vote {
  VoteVerdict verdict = VoteVerdict::granted;
  Term newest_term{};                    ///< that this elector knows
  RosterNumber assigned_roster{};        ///< of the newest world that was handed out to it
  std::optional<AttemptNumber> attempt;  ///< the newest that was handed out to it
  Term attempt_term{};                   ///< by the coordinator of this term
  /// How long ago it lost its coordinator; of a granted vote.
  std::chrono::nanoseconds lost_for{};
  /// The coordinator's side closed the connection without a word, as a process that died does.
  bool saw_close = false;
};

class Elector {
 public:
  /// False when it gave its word for a later term: that coordinator is not to be followed.
  bool follow(Term term);
  /// Its own agent was the coordinator of this term.
  void led(Term term) { followed_ = std::max(followed_, term); }
  /// It was told that this roster is about to be used: from here on no candidate that knows less is
  /// granted anything.
  void prepared(RosterNumber roster);
  /// A world was handed out to it.
  void assigned(RosterNumber roster, AttemptNumber attempt);
  /// Its coordinator is gone, and so are its own workers.
  void lost(Instant now, bool saw_close);
  Vote answer(Instant now, const VoteRequest& request);

  [[nodiscard]] Term term() const { return term_; }
  /// Its agent goes on as another elector: notes in `former`, as that of `self`, everybody who may
  /// still count on a vote of this one. Of an elector with too many votes to be told nothing is.
  void give_up(ElectorId self, std::vector<FormerElector>& former) const;

 private:
  Term term_{};      ///< the newest that it followed or gave its word for
  Term followed_{};  ///< the newest that it followed
  bool follows_ = false;
  std::optional<ElectorId> promised_to_;  ///< of term_
  std::vector<ElectorId> promises_;       ///< since it last followed, each once
  RosterNumber seen_roster_{};
  RosterNumber assigned_roster_{};
  std::optional<AttemptNumber> attempt_;
  Term attempt_term_{};
  Instant lost_at_{};
  bool saw_close_ = false;
};

}  // namespace ddprun
