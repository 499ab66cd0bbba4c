#include "tests/sim/message_text.h"

#include "tests/sim/network.h"

namespace ddprun::sim {
namespace {

std::string attempt_of(AttemptNumber attempt) {
  return " attempt " + std::to_string(number(attempt));
}

std::string with_term(Term term) {
  return " term " + std::to_string(number(term));
}

const char* verdict_text(VoteVerdict verdict) {
  switch (verdict) {
    case VoteVerdict::granted:
      return "granted";
    case VoteVerdict::follows:
      return "refused, it follows a leader";
    case VoteVerdict::promised:
      return "refused, it voted for another";
    case VoteVerdict::ahead:
      return "refused, it keeps a newer configuration";
  }
  return "";
}

struct Text {
  std::string operator()(const message::Hello& m) const {
    std::string text = "Hello";
    if (number(m.node.promise.term) > 0) {
      text += " promised" + with_term(m.node.promise.term);
    }
    return m.node.past ? text + " had" + attempt_of(m.node.past->attempt) : text;
  }
  std::string operator()(const message::Started& m) const {
    return "Started" + attempt_of(m.attempt);
  }
  std::string operator()(const message::Failed& m) const {
    return "Failed" + attempt_of(m.attempt);
  }
  std::string operator()(const message::Finished& m) const {
    return "Finished" + attempt_of(m.attempt);
  }
  std::string operator()(const message::Stopped& m) const {
    return "Stopped" + attempt_of(m.attempt);
  }
  std::string operator()(const message::StopRequest&) const { return "StopRequest"; }
  std::string operator()(const message::GiveUp&) const { return "GiveUp"; }
  std::string operator()(const message::Accepted& m) const {
    return "Accepted" + with_term(m.term);
  }
  std::string operator()(const message::Rejected& m) const { return "Rejected: " + m.why; }
  std::string operator()(const message::Assigned& m) const {
    return "Assigned" + attempt_of(m.world.attempt) + with_term(m.term) + " configuration " +
           to_text(m.configuration);
  }
  std::string operator()(const message::Stop& m) const { return "Stop" + attempt_of(m.attempt); }
  std::string operator()(const message::Finish&) const { return "Finish"; }
  std::string operator()(const message::Waiting&) const { return "Waiting"; }
  std::string operator()(const message::VoterState& m) const {
    return std::string("VoterState") + (m.replicated.ends ? " of the end," : "") +
           " configuration " + to_text(m.replicated.configuration.number) +
           with_term(m.replicated.term);
  }
  std::string operator()(const message::Story& m) const { return "Story" + attempt_of(m.attempt); }
  std::string operator()(const message::Farewell&) const { return "Farewell"; }
  std::string operator()(const message::StateKept& m) const {
    return "StateKept configuration " + to_text(m.configuration);
  }
  std::string operator()(const message::AskVote& m) const {
    return "AskVote" + with_term(m.request.term);
  }
  std::string operator()(const message::VoteAnswer& m) const {
    return std::string("VoteAnswer ") + verdict_text(m.vote.verdict);
  }
  std::string operator()(const message::Follow& m) const { return "Follow" + with_term(m.term); }
  std::string operator()(const message::Moved& m) const { return "Moved" + with_term(m.term); }
  std::string operator()(const message::Leaving&) const { return "Leaving"; }
  std::string operator()(const message::Progress&) const { return "Progress"; }
  std::string operator()(const message::AskEnvironment&) const { return "AskEnvironment"; }
  std::string operator()(const message::TellEnvironment&) const { return "TellEnvironment"; }
  std::string operator()(const message::Hung&) const { return "Hung"; }
  std::string operator()(const message::TellIncident&) const { return "TellIncident"; }
  std::string operator()(const message::Beat&) const { return "Beat"; }
  std::string operator()(const message::Echo&) const { return "Echo"; }
  std::string operator()(const message::TellWorld& m) const {
    return "TellWorld" + attempt_of(m.attempt);
  }
  std::string operator()(const message::MoreNodes&) const { return "MoreNodes"; }
  std::string operator()(const message::DrainNode&) const { return "DrainNode"; }
  std::string operator()(const message::DrainAnswer&) const { return "DrainAnswer"; }
  std::string operator()(const message::AskToLeave&) const { return "AskToLeave"; }
};

}  // namespace

std::string to_text(const message::Message& message) {
  return std::visit(Text{}, message);
}

std::string to_text(ConfigurationNumber configuration) {
  return std::to_string(number(term_of(configuration))) + "." +
         std::to_string(count_of(configuration));
}

}  // namespace ddprun::sim
