// StopPlan: how the workers of this node are ended by an order, and how long that may take. Two
// graces: a restart loses nothing by being quick, while a job that is preempted loses all that it
// cannot save.
#pragma once

#include <chrono>
#include <vector>

#include "agent/process/worker_group.h"
#include "rendezvous/contract/progress_channel.h"
#include "rendezvous/membership/stop_order.h"
#include "rendezvous/membership/world.h"

namespace ddprun {

struct StopPlan {
  bool order_save = false;  ///< tell them to save and leave; the signal comes after `grace`
  int signal = 0;
  /// Up to the signal where they were ordered to save; else from the signal to SIGKILL.
  std::chrono::milliseconds grace{};
};

/// What is known of the workers that run.
struct StopContext {
  bool obeys = false;         ///< all follow orders (ddp::Preemption)
  bool catches = false;       ///< all have a handler for the signal of the order
  bool catches_term = false;  ///< or for SIGTERM
  std::chrono::milliseconds shutdown_timeout{};
  std::chrono::milliseconds preempt_grace{};
};

/// Whether these workers, all that run, can be ordered to save and leave. Those whose training is
/// over do not keep the order from one that still saves.
bool all_obey(const std::vector<Obedience>& running);

/// `signal`: of a preemption, what the agent was sent; 0: nothing. Workers that know of no orders
/// are given that signal where they handle it, else SIGTERM; and the long grace only where they
/// handle what they are sent, for others have nothing to save.
StopPlan plan_stop(StopHow how, int signal, const StopContext& context);

/// `told` with what it says of the workers' end. Scripts that were stopped have left in order when
/// each ended with 0, or with the code that ddprun itself has for it, 75; whatever the stop was
/// for, since it may become a preemption while they save.
TrainingProgress with_ending(TrainingProgress told, const std::vector<group::Worker>& workers);

}  // namespace ddprun
