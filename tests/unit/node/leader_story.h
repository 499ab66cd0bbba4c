// LeaderStory: one Leader, and what it wants done.
#pragma once

#include <iterator>

#include "rendezvous/node/leader.h"

namespace ddprun {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

inline constexpr NodeId kOwn{1};
inline constexpr NodeId kOther{2};
inline constexpr JobInstance kJob{42};

/// A leader of a job of two nodes, which begins at its endpoint.
class LeaderStory {
 public:
  explicit LeaderStory(const LeaderOptions& given = options()) : leader(given, 100s) {
    step(SessionOpened{kOwn, true, {}});
    step(SessionTold{kOwn, message::Hello{describe(1, given.membership.max_nodes)}});
  }

  /// After its hello a node beats, as all agents do that were accepted.
  void step(LeaderInput input) {
    const auto* told = std::get_if<SessionTold>(&input);
    const bool is_hello = told != nullptr && std::holds_alternative<message::Hello>(told->message);
    const NodeId node = told != nullptr ? told->node : NodeId{};
    actions = leader.step(now, std::move(input));
    if (is_hello) {
      std::vector<LeaderAction> more = leader.step(now, SessionEchoed{node, now});
      std::move(more.begin(), more.end(), std::back_inserter(actions));
    }
  }
  void join_other() {
    step(SessionOpened{kOther, false, "10.0.0.2"});
    step(SessionTold{kOther, message::Hello{describe(2)}});
  }

  template <class Kind>
  const Kind* find() const {
    for (const LeaderAction& one : actions) {
      if (const auto* found = std::get_if<Kind>(&one)) {
        return found;
      }
    }
    return nullptr;
  }
  /// What is sent of that kind.
  template <class Kind>
  const Kind* sent() const {
    for (const LeaderAction& one : actions) {
      const auto* send = std::get_if<SendMessage>(&one);
      if (send != nullptr && std::holds_alternative<Kind>(*send->message)) {
        return &std::get<Kind>(*send->message);
      }
    }
    return nullptr;
  }

  static LeaderOptions options() {
    LeaderOptions options;
    options.membership.job_id = "job";
    options.membership.min_nodes = options.membership.max_nodes = 2;
    options.membership.self = VoterId{1};
    options.membership.instance = kJob;
    options.failover = true;
    options.addresses = {"10.0.0.1"};
    options.port = 29400;
    return options;
  }
  static NodeDescription describe(std::uint64_t voter, int nodes = 2) {
    NodeDescription node;
    node.host_name = "n" + std::to_string(voter);
    node.job_id = "job";
    node.min_nodes = node.max_nodes = nodes;
    node.voter = VoterId{voter};
    node.addresses = {"10.0.0." + std::to_string(voter)};
    node.port = 4711;
    return node;
  }

  Leader leader;
  Instant now = 100s;
  std::vector<LeaderAction> actions;
};

}  // namespace ddprun
