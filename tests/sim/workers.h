// Workers: the workers of one node: they spawn, train for a while, fail, and are stopped.
#pragma once

#include <optional>
#include <vector>

#include "rendezvous/membership/event.h"
#include "tests/sim/random.h"

namespace ddprun::sim {

class Machine;
class AgentShell;

class Workers {
 public:
  Workers(Machine& machine, AgentShell& agent) : machine_(machine), agent_(agent) {}

  void assign(const World& world);
  /// Answers when none is left. Workers that obey save first, if that is asked for.
  void stop(AttemptNumber attempt, StopHow how);
  /// The coordinator is lost: they have to be gone within a tenth of the heartbeat timeout.
  void fence();
  /// All of them are done.
  void finish();
  /// One of them fails by itself.
  void fail();
  /// One of a peer that is gone, if it looks so.
  void notice_peer(AttemptNumber attempt);

  [[nodiscard]] bool live() const { return live_; }
  [[nodiscard]] const std::optional<World>& world() const { return world_; }

 private:
  void started(AttemptNumber attempt);
  void finished(AttemptNumber attempt);
  void fail_as(bool peer_lost);
  void leave(AttemptNumber attempt);
  void report_stopped();
  void gone();
  [[nodiscard]] bool is(AttemptNumber attempt) const {
    return world_ && world_->attempt == attempt;
  }
  [[nodiscard]] TrainingProgress progress() const;
  Duration takes(Duration cost);

  Machine& machine_;
  AgentShell& agent_;
  std::optional<World> world_;
  bool live_ = false;
  bool stopping_ = false;
  bool fenced_ = false;
  bool stepped_ = false;
  bool leaving_ = false;   ///< they were ordered to save and leave,
  bool left_ = false;      ///< have done so,
  bool complete_ = false;  ///< or were done before it
  std::vector<FailureRecord> failures_;
  Duration failed_at_{};
};

}  // namespace ddprun::sim
