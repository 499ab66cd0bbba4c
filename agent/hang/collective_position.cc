#include "agent/hang/collective_position.h"

#include "agent/hang/thread_states.h"
#include "agent/process/process_tree.h"

namespace ddprun {

WorkerPosition position_of(int rank, const ProgressPage& page, std::chrono::nanoseconds now) {
  WorkerPosition position;
  position.rank = rank;
  // Only the worker runtime writes the magic number; the page of any other worker stays zero.
  position.told = page.magic.load() == ProgressPage::kMagic;
  if (!position.told) {
    return position;
  }
  position.phase = to_text(static_cast<WorkPhase>(page.phase.load()));
  position.steps = static_cast<std::int64_t>(page.steps.load());
  // Both times are CLOCK_MONOTONIC, one clock for all processes of a host. The worker may write
  // between the two looks, so the difference may be below zero.
  const std::int64_t changed = page.changed_ns.load();
  position.still_for =
      changed == 0 ? std::chrono::nanoseconds(0)
                   : std::max(now - std::chrono::nanoseconds(changed), std::chrono::nanoseconds(0));
  // The GPUs' group last: a rank that waits there waits for the step, whatever its other group
  // does.
  for (int group = 0; group < 2; ++group) {
    const CollectiveCounters& counters = page.collectives[group];
    position.entered[static_cast<std::size_t>(group)] = counters.entered.load();
    const std::uint64_t waiting = counters.waiting.load();
    // The worker runs while its counters are read: `finished` is read last. So a collective
    // that ends in between is not taken for one that waits.
    if (waiting > counters.finished.load()) {
      const std::uint64_t what = counters.what.load();
      constexpr int kShift = CollectiveCounters::kKindShift;
      position.operation = to_text(static_cast<CollectiveKind>(what >> kShift));
      position.bytes = what & ((std::uint64_t{1} << kShift) - 1);
      position.sequence = waiting;
      position.group = group;
    }
  }
  return position;
}

std::string standstill_of(pid_t pid) {
  const auto stat = read_proc_stat(pid);
  // proc(5). In the states T, t and D no code of the process runs: its handlers cannot answer, and
  // it cannot come to a collective.
  switch (stat ? stat->state : '?') {
    case 'T':
      return "stopped by a signal (state T)";
    case 't':
      return "held by a debugger (state t)";
    case 'D': {
      const std::string where = wait_channel(pid);
      return "in an uninterruptible wait (state D" + (where.empty() ? "" : " in " + where) + ")";
    }
    default:
      return {};
  }
}

}  // namespace ddprun
