// Elector: one agent's vote. Pure.
//
// An agent follows one coordinator per term. While it follows, it grants nothing; once its
// coordinator is lost, it grants one candidate per term, and never one that knows less of the job
// than itself. Following and granting bind (Pledge), and the term of what binds never falls.
#pragma once

#include <optional>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/succession.h"

namespace ddprun {

struct VoteRequest {
  Term term{};
  ElectorId candidate{};
  Horizon horizon;  ///< what the candidate knows
};

enum class VoteVerdict : std::uint8_t {
  granted,
  follows,   ///< it has a coordinator
  promised,  ///< it gave its word to another for this term or a later one
  ahead,     ///< it has prepared for a roster that the candidate does not know
};

struct Vote {
  VoteVerdict verdict = VoteVerdict::granted;
  Term newest_term{};                    ///< that this elector knows
  RosterNumber prepared_roster{};        ///< the newest that it has prepared for
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
  /// The agent is connected to this coordinator. With a pledge of a later term it grants nothing
  /// meanwhile, and stays bound until the coordinator has risen above that term.
  void follow(Term term, ElectorId coordinator);
  /// This roster is about to be used: from here on no candidate that knows less is granted
  /// anything, and it counts as a vote for its coordinator in `term`. False: it is bound to another
  /// one, and may not say that it is ready.
  [[nodiscard]] bool prepared(RosterNumber roster, Term term);
  /// A world was handed out to it.
  void assigned(RosterNumber roster, AttemptNumber attempt, Term term);
  /// Its coordinator is gone, and so are its own workers.
  void lost(Instant now, bool saw_close);
  Vote answer(Instant now, const VoteRequest& request);

  [[nodiscard]] const Pledge& pledge() const { return pledge_; }

 private:
  Pledge pledge_;
  std::optional<ElectorId> follows_;
  RosterNumber assigned_roster_{};
  std::optional<AttemptNumber> attempt_;
  Term attempt_term_{};
  Instant lost_at_{};
  bool saw_close_ = false;
};

}  // namespace ddprun
