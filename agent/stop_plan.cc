#include "agent/stop_plan.h"

#include <charconv>
#include <csignal>
#include <cstdint>

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

bool catches_signal(std::string_view proc_status, int signal) {
  constexpr std::string_view kField = "\nSigCgt:\t";
  const auto at = proc_status.find(kField);
  if (at == std::string_view::npos || signal < 1 || signal > 64) {
    return false;
  }
  const std::string_view digits = proc_status.substr(at + kField.size(), 16);
  std::uint64_t mask = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), mask, 16);
  return read.ec == std::errc() && ((mask >> (signal - 1)) & 1) != 0;
}

}  // namespace ddprun
