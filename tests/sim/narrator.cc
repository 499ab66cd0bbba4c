#include "tests/sim/narrator.h"

#include <algorithm>
#include <cstdio>

#include "rendezvous/membership/event_text.h"
#include "tests/sim/cluster.h"
#include "tests/sim/message_text.h"

namespace ddprun::sim {
namespace {

std::string term_text(Term term) {
  return "term " + std::to_string(number(term));
}

std::string attempt_text(AttemptNumber attempt) {
  return "attempt " + std::to_string(number(attempt));
}

const char* refusal_text(VoteVerdict verdict) {
  switch (verdict) {
    case VoteVerdict::granted:
      break;
    case VoteVerdict::follows:
      return "it follows a leader";
    case VoteVerdict::promised:
      return "it has voted for another";
    case VoteVerdict::ahead:
      return "it keeps a configuration that the candidate does not know";
  }
  return "";
}

std::string host_of(const std::string& place) {
  return place.substr(0, place.find(':'));
}

std::string with_reason(const std::string& text, const std::string& reason) {
  return reason.empty() ? text : text + ": " + reason;
}

/// The nodes of all commands of this kind.
template <class Kind>
std::vector<NodeId> nodes_of(const std::vector<Command>& commands) {
  std::vector<NodeId> nodes;
  for (const Command& command : commands) {
    if (const auto* one = std::get_if<Kind>(&command)) {
      nodes.push_back(one->node);
    }
  }
  return nodes;
}

template <class Kind>
const Kind* first_of(const std::vector<Command>& commands) {
  for (const Command& command : commands) {
    if (const auto* one = std::get_if<Kind>(&command)) {
      return one;
    }
  }
  return nullptr;
}

}  // namespace

// --- Names ----------------------------------------------------------------------------------

std::string Narrator::name(int machine, NodeId node) const {
  const auto leader = nodes_.find(machine);
  if (leader == nodes_.end() || !leader->second.contains(node)) {
    return "?";
  }
  return leader->second.at(node);
}

std::string Narrator::names(int machine, const std::vector<NodeId>& nodes) const {
  std::string text;
  for (const NodeId node : nodes) {
    text += (text.empty() ? "" : " ") + name(machine, node);
  }
  return text;
}

std::string Narrator::name(VoterId voter) const {
  return voter == kServiceVoter ? "service" : host_name(cluster_.machine_of(voter));
}

std::string Narrator::names(const std::vector<VoterId>& voters) const {
  std::vector<std::string> all;
  for (const VoterId voter : voters) {
    all.push_back(name(voter));
  }
  std::sort(all.begin(), all.end());
  std::string text;
  for (const std::string& one : all) {
    text += (text.empty() ? "" : " ") + one;
  }
  return text;
}

void Narrator::say(int machine, const std::string& what) {
  const auto now = std::chrono::duration_cast<milliseconds>(cluster_.now()).count();
  char time[32];
  std::snprintf(time, sizeof time, "%3lld.%03lld", static_cast<long long>(now / 1000),
                static_cast<long long>(now % 1000));
  text_ += std::string("  ") + time + " " + host_name(machine) + " " + what + "\n";
}

void Narrator::say_news(int machine, const std::string& what) {
  if (std::exchange(repeated_[machine], what) != what) {
    say(machine, what);
  }
}

std::string Narrator::take() {
  return std::exchange(text_, {});
}

// --- What a node decides --------------------------------------------------------------------

void Narrator::decided(int machine, const NodeInput& input, const NodeAction& action) {
  if (std::holds_alternative<FollowLeader>(action)) {
    const auto& accepted = std::get<HelloAccepted>(input);
    say(machine, "follows " + host_of(accepted.leader) + ", " + term_text(accepted.accepted.term));
  } else if (const auto* kept = std::get_if<AcknowledgeState>(&action)) {
    say(machine, "keeps configuration " + to_text(kept->acknowledged.configuration));
  } else if (const auto* fence = std::get_if<FenceWorkers>(&action)) {
    const auto* lost = std::get_if<LeaderLost>(&input);
    say(machine, "stops its workers: " +
                     (lost != nullptr ? "its leader is lost, " + lost->clause : fence->why.what));
  } else if (std::holds_alternative<CloseConnection>(action)) {
    say(machine, "has no workers left, and lets go of its leader");
  } else if (std::holds_alternative<SearchLeader>(action)) {
    if (const auto* called = std::get_if<CalledByLeader>(&input)) {
      say(machine, "yields to the leader of " + term_text(called->call.term) + ", which calls it");
    }
  } else if (const auto* answer = std::get_if<AnswerPeer>(&action)) {
    const auto* vote = std::get_if<message::VoteAnswer>(&answer->answer);
    if (vote != nullptr) {
      const auto& asked = std::get<message::AskVote>(std::get<AskedByPeer>(input).question);
      const std::string whose = name(asked.request.candidate);
      const std::string what = whose + " its vote of " + term_text(asked.request.term);
      say_news(machine, vote->vote.verdict == VoteVerdict::granted
                            ? "grants " + what
                            : "refuses " + what + ": " + refusal_text(vote->vote.verdict));
    }
  } else if (const auto* ask = std::get_if<AskVotes>(&action)) {
    std::vector<VoterId> voters;
    for (const message::VoterAddress& one : ask->voters) {
      voters.push_back(one.voter);
    }
    if (!voters.empty()) {
      say_news(machine, "asks " + names(voters) + " for votes of " + term_text(ask->request.term));
    }
  } else if (const auto* lead = std::get_if<BeginLeading>(&action)) {
    nodes_[machine].clear();
    configuration_.erase(machine);
    const auto& takeover = lead->takeover;
    const bool by_service = std::holds_alternative<Appointed>(input);
    const std::string how = by_service ? ", for the service lets it"
                            : takeover ? ", by the votes of " + names(takeover->votes)
                                       : " at the endpoint";
    say(machine, takeover ? "leads, " + term_text(takeover->term) + how
                          : "leads" + how + ", and knows of no job");
  } else if (const auto* stop = std::get_if<StopLeading>(&action)) {
    say(machine, "leads no more: " + stop->why);
  } else if (const auto* gave_up = std::get_if<GiveUp>(&action)) {
    say(machine, "gives up: " + gave_up->why.what);
  }
}

// --- What a coordinator decides -------------------------------------------------------------

void Narrator::led(int machine, const Event& event, const std::vector<Command>& commands) {
  if (const auto* joined = std::get_if<NodeJoined>(&event)) {
    nodes_[machine][joined->node] = joined->description.host_name;
  }
  tell_event(machine, event);
  tell_commands(machine, commands);
  tell_world(machine, commands);
}

void Narrator::tell_event(int machine, const Event& event) {
  if (const auto* lost = std::get_if<NodeLost>(&event)) {
    say(machine, "loses " + name(machine, lost->node) + ": " + lost->why +
                     (lost->died ? ", its agent is dead" : ""));
  } else if (const auto* joined = std::get_if<NodeJoined>(&event)) {
    say(machine, "admits " + joined->description.host_name +
                     (joined->description.witness ? ", a witness" : ""));
  } else if (const auto* failed = std::get_if<WorkerFailed>(&event)) {
    say(machine, "is told that a worker failed on " + name(machine, failed->node));
  } else if (const auto* finished = std::get_if<WorkersFinished>(&event)) {
    say(machine, "is told that all workers finished on " + name(machine, finished->node));
  }
}

void Narrator::tell_commands(int machine, const std::vector<Command>& commands) {
  if (const auto* stop = first_of<StopWorkers>(commands)) {
    say(machine, with_reason("stops " + attempt_text(stop->attempt) + " on " +
                                 names(machine, nodes_of<StopWorkers>(commands)),
                             stop->reason));
  }
  for (const Command& command : commands) {
    if (const auto* plan = std::get_if<Replicate>(&command)) {
      const ReplicatedState& state = plan->replicated;
      say(machine, (state.ends ? std::string("replicates the end of the job as configuration ")
                               : std::string("replicates configuration ")) +
                       to_text(state.configuration.number) + " in " + term_text(state.term) +
                       ", voters " + names(state.configuration.voters) + ", to " +
                       names(machine, plan->voters));
    } else if (const auto* reject = std::get_if<Reject>(&command)) {
      say(machine, "rejects " + name(machine, reject->node) + ": " + reject->why);
    } else if (const auto* close = std::get_if<Disconnect>(&command)) {
      say(machine, "closes the old connection of " + name(machine, close->node));
    } else if (const auto* release = std::get_if<Release>(&command)) {
      say(machine, "releases " + name(machine, release->node));
    } else if (const auto* incident = std::get_if<TellIncident>(&command)) {
      say(machine, "tells everybody: " + incident->text);
    } else if (const auto* waiting = std::get_if<TellWaiting>(&command)) {
      tell_waiting(machine, *waiting);
    } else if (const auto* end = std::get_if<FinishJob>(&command)) {
      say(machine,
          with_reason(std::string("tells everybody the end, ") + to_text(end->summary->verdict),
                      end->summary->reason));
    }
  }
}

void Narrator::tell_waiting(int machine, const TellWaiting& told) {
  const RendezvousStatus& table = *told.table;
  say_news(machine, with_reason(table.waits_for == RendezvousStatus::For::turn
                                    ? "tells " + names(machine, told.nodes) + " to wait"
                                    : "waits, " + std::to_string(table.workers_here) + " of " +
                                          std::to_string(table.min_nodes) + " nodes are here",
                                table.note));
}

void Narrator::tell_world(int machine, const std::vector<Command>& commands) {
  const auto* first = first_of<AssignWorld>(commands);
  if (first == nullptr) {
    return;
  }
  const bool is_new =
      std::exchange(configuration_[machine], first->configuration) != first->configuration;
  say(machine, (is_new ? "commits configuration " + to_text(first->configuration) + ", and assigns "
                       : std::string("assigns ")) +
                   attempt_text(first->world.attempt) + " to " +
                   names(machine, nodes_of<AssignWorld>(commands)) + " in " +
                   term_text(first->term) +
                   ", restarts used: " + std::to_string(first->world.restarts_used));
}

}  // namespace ddprun::sim
