// EnvironmentCheck: whether the nodes of a job have the same environment (node_environment.h).
// Pure.
//
// Nodes join with a digest alone. When enough are here, and again for whoever comes later, those
// with other digests than the reference - that of most nodes then - are compared: one node of each
// digest is asked for its facts, and people are told the differences, once. Where differences are
// an error, the first world waits for this, and a later node that differs is not let in.
// docs/environment-agreement.md
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/membership/admission.h"
#include "rendezvous/membership/environment_table.h"
#include "rendezvous/membership/node_description.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

class EnvironmentCheck {
 public:
  /// Digests that are compared at a time; nodes of further ones are counted.
  static constexpr std::size_t kComparedMax = 32;

  /// `required`: differences are an error. `inherited`: a coordinator before this one began the
  /// job; what its nodes (those that come with a past) differ in, it has told.
  EnvironmentCheck(bool required, bool inherited) : required_(required), settled_(inherited) {}

  /// Whether a node may be part of the job at all. False: it differs from the job that has begun,
  /// and is asked in what; a Step of later rejects it, and nothing else is to be done with it.
  bool admits(NodeId id, const NodeDescription& node);
  /// It is part of the job. A node that told no digest, as a witness, is not compared.
  void joined(NodeId id, const NodeDescription& node);
  void left(NodeId id);
  /// Answer to a question of a Step; ignored from anybody else.
  void on_facts(NodeId id, NodeEnvironment environment);
  /// Enough nodes are here for the first world. False: it has to wait for a Step, or for changes.
  bool ready_to_start();

  struct Step {
    std::vector<NodeId> ask;            ///< for their facts
    std::string table;                  ///< for people; several lines
    std::optional<std::string> ending;  ///< a clause: the job ends for this
    std::vector<std::pair<NodeId, Refusal>> refused;
  };
  /// Whether take_actions() may have something to do. Most events of a job change no environment.
  [[nodiscard]] bool is_due() const { return dirty_; }
  /// What is to be done after the last event.
  Step take_actions();

 private:
  struct Node {
    std::string host_name;
    int agent_pid = 0;
    EnvironmentDigest digest;
  };
  using Digests = std::vector<EnvironmentDigest>;

  void add(NodeId id, const NodeDescription& node);
  [[nodiscard]] bool is_here(const EnvironmentDigest& digest) const;
  [[nodiscard]] Digests by_size() const;
  [[nodiscard]] std::optional<EnvironmentDigest> reference() const;
  [[nodiscard]] Digests subjects(const EnvironmentDigest& reference);
  bool ask_about(const Digests& digests, Step& step);
  [[nodiscard]] NodesAlike alike(const EnvironmentDigest& digest) const;
  [[nodiscard]] std::string name_of(NodeId id) const;
  [[nodiscard]] std::string clause(const EnvironmentDigest& one,
                                   const EnvironmentDigest& other) const;
  void tell(const EnvironmentDigest& reference, const Digests& others, Step& step);
  void refuse_all(const EnvironmentDigest& reference, Step& step);
  void forget_unused();

  bool required_;
  bool settled_;                                        ///< the first world is, or was, let go
  bool comparing_ = false;                              ///< the first world waits
  bool dirty_ = false;                                  ///< is_due()
  std::map<NodeId, Node> nodes_;                        ///< also those that are not let in
  std::map<EnvironmentDigest, std::set<NodeId>> here_;  ///< of the job, told ones alone
  std::map<std::string, int> hosts_;                    ///< how many nodes have the name
  std::optional<EnvironmentDigest> first_;              ///< what the job began with
  std::map<EnvironmentDigest, NodeEnvironment> known_;
  std::map<EnvironmentDigest, NodeId> asked_;
  std::set<NodeId> untold_;                                   ///< later ones, to be compared
  std::set<NodeId> kept_out_;                                 ///< to be refused
  std::set<std::pair<std::string, EnvironmentDigest>> told_;  ///< of which host people know it
};

}  // namespace ddprun
