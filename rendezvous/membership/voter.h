// Voter: one agent's vote. Pure.
//
// An agent follows one coordinator per term. While it follows, it grants nothing; once its
// coordinator is lost, it grants one candidate per term, and never one that knows less of the job
// than itself. Following and granting bind (Promise), and the term of what binds never falls.
#pragma once

#include <optional>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"

namespace ddprun {

struct VoteRequest {
  Term term{};
  VoterId candidate{};
  LogPosition log_position;  ///< what the candidate knows
  AttemptNumber attempt{};   ///< and of which attempt it has the story
};

enum class VoteVerdict : std::uint8_t {
  granted,
  follows,   ///< it has a coordinator
  promised,  ///< it gave its word to another for this term or a later one
  ahead,     ///< it stores a configuration, or a story, that the candidate does not have
};

struct Vote {
  VoteVerdict verdict = VoteVerdict::granted;
  Term newest_term{};                            ///< that this voter knows
  ConfigurationNumber prepared_configuration{};  ///< the newest that it has prepared for
  ConfigurationNumber assigned_configuration{};  ///< of the newest world that was handed out to it
  std::optional<AttemptNumber> attempt;          ///< the newest that was handed out to it
  Term attempt_term{};                           ///< by the coordinator of this term
  /// How long ago it lost its coordinator; of a granted vote.
  std::chrono::nanoseconds lost_for{};
  /// The coordinator's side closed the connection without a word, as a process that died does.
  bool saw_close = false;
};

class Voter {
 public:
  /// The agent is connected to this coordinator. With a promise of a later term it grants nothing
  /// meanwhile, and stays bound until the coordinator has risen above that term.
  void follow(Term term, VoterId coordinator);
  /// Its coordinator sent this state: from here on no candidate that knows less is granted
  /// anything, and it counts as a vote for the coordinator in that term. False: this voter is bound
  /// to another one, or has kept a state that the coordinator does not know; it may not acknowledge
  /// this one.
  [[nodiscard]] bool keeps(const ReplicatedState& state);
  /// It stores the story of this attempt, in the configuration that it keeps.
  void has_story_of(AttemptNumber attempt);
  /// The configuration that it stores is in use. So none of the candidates that it voted for before
  /// leads. (While it is only proposed, one of them may: that proposal may come to nothing.)
  void in_use();
  /// A world was handed out to it.
  void assigned(ConfigurationNumber configuration, AttemptNumber attempt, Term term);
  /// Its coordinator is gone, and so are its own workers.
  void lost(Instant now, bool saw_close);
  Vote answer(Instant now, const VoteRequest& request);

  [[nodiscard]] const Promise& promise() const { return promise_; }

 private:
  [[nodiscard]] bool prepared(ConfigurationNumber configuration, Term term);

  Promise promise_;
  std::optional<VoterId> follows_;
  AttemptNumber story_{};  ///< the attempt whose story is stored
  ConfigurationNumber assigned_configuration_{};
  std::optional<AttemptNumber> attempt_;
  Term attempt_term_{};
  Instant lost_at_{};
  bool saw_close_ = false;
};

}  // namespace ddprun
