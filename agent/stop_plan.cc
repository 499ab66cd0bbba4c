#include "agent/stop_plan.h"

#include <csignal>

namespace ddprun {

StopPlan plan_stop(StopHow how, int signal, const StopContext& context) {
  if (how != StopHow::now && context.obeys) {
    return {true, SIGTERM, context.preempt_grace};
  }
  if (how != StopHow::preempt) {
    return {false, SIGTERM, context.shutdown_timeout};
  }
  if (signal != 0 && signal != SIGTERM && context.catches) {
    return {false, signal, context.preempt_grace};
  }
  return {false, SIGTERM, context.catches_term ? context.preempt_grace : context.shutdown_timeout};
}

}  // namespace ddprun
