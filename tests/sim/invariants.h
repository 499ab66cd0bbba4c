// Invariants: an observer who sees all that the state machine is told and orders, and knows which
// workers really live. It says what went wrong, never how to do it right.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/membership.h"

namespace ddprun::sim {

class Invariants {
 public:
  explicit Invariants(const MembershipOptions& options) : options_(options) {}

  /// After every event, with the commands that it gave.
  void after(const Event& event, const std::vector<Command>& commands);
  /// Workers of an attempt began to live or ceased to, on one node.
  void workers_live(std::uint64_t node, AttemptNumber attempt);
  void workers_gone(std::uint64_t node);

  /// The first violation; empty while all is well.
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] bool over() const { return summary_.has_value(); }
  [[nodiscard]] const std::optional<JobSummary>& summary() const { return summary_; }

 private:
  void note(const Event& event);
  void check_world(const std::vector<AssignWorld>& assigned);
  void check_budget(int restarts_used);
  void check_end(const JobSummary& summary);
  void broken(const std::string& what);

  MembershipOptions options_;
  std::string violation_;
  std::set<NodeId> known_;  ///< welcomed, and not lost
  std::map<NodeId, int> workers_;
  std::map<std::uint64_t, AttemptNumber> live_;
  std::map<std::uint32_t, int> live_nodes_;  ///< by attempt
  std::optional<std::uint32_t> attempt_;
  std::set<NodeId> members_;
  std::set<NodeId> finished_;
  int restarts_used_ = 0;
  bool fault_seen_ = false;   ///< in this attempt a worker failed by itself, and said so
  bool origin_seen_ = false;  ///< in this attempt a member was lost or a node joined
  bool unasked_stop_ = false;
  std::optional<JobSummary> summary_;
};

}  // namespace ddprun::sim
