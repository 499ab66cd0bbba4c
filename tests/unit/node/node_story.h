// NodeStory: one Node, and what it wants done.
#pragma once

#include "rendezvous/node/node.h"

namespace ddprun {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

inline constexpr VoterId kSelf{7};
inline constexpr VoterId kLeader{1};
inline constexpr JobInstance kJob{42};
inline constexpr HostIdentity kHost{3, 4, 5};

/// One Node, and what it wants done.
class NodeStory {
 public:
  explicit NodeStory(bool failover = true, bool by_service = false)
      : node_(options(failover, by_service)) {
    step(NodeStarted{kSelf, {"10.0.0.7"}, 30'000});
  }

  void step(NodeInput input) { actions = node_.step(now, std::move(input)); }
  void wait(std::chrono::nanoseconds span) { now += span; }

  /// It was accepted by the leader of that term.
  void follow(Term term) {
    step(HelloAccepted{{term, kLeader, 1, {}, kHost, true}, "10.0.0.1:29400", now, true});
  }
  /// It is a standby in a world of itself and the leader.
  void be_standby() {
    message::VoterState state;
    state.replicated = {Term{1},
                        Term{1},
                        kLeader,
                        AttemptNumber{3},
                        {make_configuration(Term{1}, kLeader, 1), {kLeader, kSelf, VoterId{9}}}};
    state.replicated.instance = kJob;
    state.replicated.settled = state.replicated.configuration.number;
    state.nodes = {{VoterId{9}, "n9", {"10.0.0.9"}, 30'000}};
    step(ToldByLeader{state});
  }
  void lose(bool saw_close) {
    step(LeaderLost{Error{"the coordinator was lost: it is gone", {}, {}}, "it is gone", now,
                    saw_close});
  }

  template <class Kind>
  const Kind* find() const {
    for (const NodeAction& one : actions) {
      if (const auto* found = std::get_if<Kind>(&one)) {
        return found;
      }
    }
    return nullptr;
  }
  [[nodiscard]] const Node& node() const { return node_; }

  Instant now = 100s;
  std::vector<NodeAction> actions;

 private:
  static NodeOptions options(bool failover, bool by_service) {
    NodeOptions options;
    options.endpoints = {{"10.0.0.1", 29400}};
    options.node.job_id = "job";
    options.node.max_nodes = 3;
    options.failover = failover;
    options.by_service = by_service;
    return options;
  }

  Node node_;
};

inline message::Follow call_of(Term term, bool to_endpoint = false) {
  message::Follow call{"job", term, {"10.0.0.2"}, 4711, std::nullopt, kJob, kSelf};
  if (to_endpoint) {
    call.to_endpoint = message::JobOptions{1, 3, 0, false};
  }
  return call;
}

}  // namespace ddprun
