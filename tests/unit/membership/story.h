// Story: a small language for tests of the state machine: do one thing, look at what it ordered.
#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/membership/event_text.h"
#include "rendezvous/membership/membership.h"

namespace ddprun::story {

using namespace std::chrono_literals;  // allowed: literals alone, within tests

inline MembershipOptions fixed(int nodes, int max_restarts = 3) {
  return {"job", nodes, nodes, max_restarts, 600s, 30s};
}
inline MembershipOptions elastic(int min_nodes, int max_nodes, int max_restarts = 3) {
  return {"job", min_nodes, max_nodes, max_restarts, 600s, 30s};
}

inline FailureRecord killed(int rank, std::chrono::nanoseconds age = 0ns) {
  FailureRecord record;
  record.rank = rank;
  record.exit = {ExitStatus::Kind::signalled, 9};
  record.age = age;
  return record;
}
inline FailureRecord exited(int rank, int code, std::chrono::nanoseconds age = 0ns) {
  FailureRecord record = killed(rank, age);
  record.exit = {ExitStatus::Kind::exited, code};
  return record;
}
inline FailureRecord peer_lost(FailureRecord record) {
  record.peer_lost = true;
  return record;
}
inline FailureRecord after_stop(FailureRecord record) {
  record.after_stop = true;
  return record;
}

class Story {
 public:
  explicit Story(const MembershipOptions& options) : options_(options), membership_(options, 0ns) {}

  Membership& job() { return membership_; }
  [[nodiscard]] std::chrono::nanoseconds now() const { return now_; }
  void wait(std::chrono::nanoseconds time) { now_ += time; }

  NodeDescription description(const std::string& host, int workers = 1) const {
    NodeDescription d;
    d.host_name = host;
    d.local_world_size = workers;
    d.role = "default";
    d.job_id = options_.job_id;
    d.min_nodes = options_.min_nodes;
    d.max_nodes = options_.max_nodes;
    d.max_restarts = options_.max_restarts;
    d.program = "train";
    d.require_same_env = options_.require_same_env;
    return d;
  }
  NodeId join(NodeDescription d) {
    const NodeId id{++last_id_};
    apply(NodeJoined{id, std::move(d)});
    return id;
  }
  NodeId join(const std::string& host, int workers = 1) { return join(description(host, workers)); }
  void lose(NodeId id, std::chrono::nanoseconds silent_for = 0ns) {
    apply(NodeLost{id, "its connection closed", silent_for});
  }
  void started(NodeId id) { apply(WorkersStarted{id, attempt()}); }
  void failed(NodeId id, FailureRecord r) { apply(WorkerFailed{id, attempt(), std::move(r)}); }
  void finished(NodeId id, TrainingProgress p = {}) { apply(WorkersFinished{id, attempt(), p}); }
  void stopped(NodeId id, std::vector<FailureRecord> records = {}, TrainingProgress p = {}) {
    apply(WorkersStopped{id, attempt(), std::move(records), 0, p});
  }
  void time_passed() { apply(TimePassed{}); }
  void apply(Event event) { commands = membership_.apply(now_, std::move(event)); }

  [[nodiscard]] AttemptNumber attempt() const { return membership_.attempt().value(); }
  [[nodiscard]] JobState state() const { return membership_.state(); }

  /// All commands of one kind that the last event gave.
  template <class Kind>
  std::vector<Kind> all() const {
    std::vector<Kind> found;
    for (const Command& command : commands) {
      if (const auto* one = std::get_if<Kind>(&command)) {
        found.push_back(*one);
      }
    }
    return found;
  }
  template <class Kind>
  Kind only() const {
    const auto found = all<Kind>();
    REQUIRE(found.size() == 1);
    return found.front();
  }
  World world_of(NodeId id) const {
    for (const AssignWorld& assigned : all<AssignWorld>()) {
      if (assigned.node == id) {
        return assigned.world;
      }
    }
    FAIL("node " << number(id) << " was assigned nothing");
    return {};
  }
  std::vector<NodeId> ordered_to_stop() const {
    std::vector<NodeId> ids;
    for (const StopWorkers& stop : all<StopWorkers>()) {
      ids.push_back(stop.node);
    }
    return ids;
  }

  std::vector<Command> commands;

 private:
  MembershipOptions options_;
  std::chrono::nanoseconds now_{0};
  std::uint64_t last_id_ = 0;
  Membership membership_;
};

}  // namespace ddprun::story
