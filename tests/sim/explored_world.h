// ExploredWorld: a small cluster whose next event somebody chooses (exploration.h). Node, Leader
// and all under them are the product's, in the simulation's shells.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/sim/cluster.h"

namespace ddprun::sim {

struct ExploreOptions {
  int nodes = 2;
  /// On one path. An agent that is gone starts anew, and a cut ends, at any moment, beside that.
  int faults = 1;
  /// How often a path may take another action than the one that would be first; none: always.
  std::optional<int> reorderings = {};
  /// Until then all happens in the order of sending.
  Duration from = Duration(0);
  /// No fault comes later, and a path ends `tail` after its last one.
  Duration faults_until = seconds(2);
  Duration tail = seconds(9);
};

/// One thing that may happen next.
struct Choice {
  enum class Kind : std::uint8_t {
    action,     ///< a message is read, a timer fires, a call arrives
    lost_call,  ///< a call does not
    fault,
    heal,            ///< the cut ends
    break_off,       ///< a connection breaks, and both sides are told
    half_break_off,  ///< and only the coordinator is told
  };
  Kind kind = Kind::action;
  std::uint64_t sequence = 0;  ///< of an action or a call
  ActionTag tag = {};          ///< of these
  Fault fault = {};
  ConnectionId connection{};
  bool reorders = false;
  /// One of several actions, and a timer: it may do nothing.
  bool may_be_idle = false;
};

class ExploredWorld {
 public:
  /// All agents start at once. `options` outlive it.
  ExploredWorld(const ExploreOptions& options, bool tracing);

  /// In the same order whenever the path to here is the same. Empty: the path ends.
  std::vector<Choice> choices();
  void take(const Choice& choice);
  /// What an exploration knows of the path to here, beside the cluster.
  struct Progress {
    std::uint64_t done = 0;  ///< a sum over what was taken and changed something
    bool news = true;        ///< faults may come, for something has changed since the last time
    bool forced = false;     ///< the newest choices were one action, which has no order
    bool was_idle = false;
    Duration last_fault{};
    std::uint64_t sent = 0;       ///< Network::digest
    std::uint64_t decisions = 0;  ///< what everybody has decided, and what was said but heartbeats
  };
  [[nodiscard]] const Progress& progress() const { return progress_; }
  /// Takes again, in a new world, what led to a state whose progress is known.
  void repeat(const std::vector<Choice>& path, const Progress& progress);
  /// The newest choice changed nothing: what could be taken instead may as well come next.
  [[nodiscard]] bool was_idle() const { return progress_.was_idle; }
  /// Of two states that are one. See exploration.h.
  [[nodiscard]] std::uint64_t digest();
  /// Empty for what is not worth a line.
  [[nodiscard]] std::string text(const Choice& choice);
  [[nodiscard]] Cluster& cluster() { return cluster_; }

 private:
  bool happens_at_once(const Timeline::Pending& action);
  bool may_fail();
  bool is_settled();
  void add_faults(std::vector<Choice>& all);
  void carry_out(const Choice& choice);
  std::uint64_t of_action(const ActionTag& tag, Duration time);
  std::uint64_t decisions();

  const ExploreOptions& options_;
  Cluster cluster_;
  int faults_left_;
  std::optional<int> reorderings_left_;
  Progress progress_;
};

}  // namespace ddprun::sim
