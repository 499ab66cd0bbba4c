#include "agent/process/stop_plan.h"

#include <algorithm>
#include <csignal>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/exit_code.h"

namespace ddprun {

bool all_obey(const std::vector<Obedience>& running) {
  const auto count = [&running](Obedience how) {
    return std::count(running.begin(), running.end(), how);
  };
  // Obedience::past is neutral: a worker whose training is over needs no order.
  return count(Obedience::never) == 0 && (running.empty() || count(Obedience::obeys) > 0);
}

StopPlan plan_stop(StopHow how, int signal, const StopContext& context) {
  DDP_CHECK(how != StopHow::hang, "workers that hang are looked at before a plan is made");
  DDP_CHECK(context.shutdown_timeout.count() >= 0, "time runs forwards");
  if (how != StopHow::now && context.obeys) {
    return {true, SIGTERM, context.preempt_grace};
  }
  // Any other stop leads to a restart from the newest snapshot, which is to come soon.
  if (how != StopHow::preempt) {
    return {false, SIGTERM, context.shutdown_timeout};
  }
  if (signal != 0 && signal != SIGTERM && context.catches) {
    return {false, signal, context.preempt_grace};
  }
  return {false, SIGTERM, context.catches_term ? context.preempt_grace : context.shutdown_timeout};
}

TrainingProgress with_ending(TrainingProgress told, const std::vector<group::Worker>& workers) {
  static constexpr ExitStatus kSaved{ExitStatus::Kind::exited, kExitResume};
  const auto all = [&workers](auto holds) {
    return std::all_of(workers.begin(), workers.end(), holds);
  };
  told.complete = !told.left && all([](const group::Worker& worker) {
    return worker.exit.success() && !worker.after_stop;
  });
  const bool in_order = all(
      [](const group::Worker& worker) { return worker.exit.success() || worker.exit == kSaved; });
  told.left = told.left || (!told.complete && in_order);
  return told;
}

}  // namespace ddprun
