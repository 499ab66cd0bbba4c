#include "agent/operations/worker_snapshot.h"

#include <unistd.h>

#include "agent/process/process_tree.h"

namespace ddprun {

/// Fields of the page are whole each, but not together: a step may come between two of them, which
/// makes no difference to who looks each second.
void add_told(WorkerSnapshot& worker, const ProgressPage& page) {
  if (page.magic.load() != ProgressPage::kMagic) {
    return;
  }
  worker.phase = to_text(static_cast<WorkPhase>(page.phase.load()));
  const auto steps = static_cast<std::int64_t>(page.steps.load());
  worker.steps = steps;
  if (const auto planned = static_cast<std::int64_t>(page.run_steps.load()); planned > 0) {
    worker.run_steps = planned;
    worker.run_step = static_cast<std::int64_t>(page.run_steps_before.load()) + steps;
  }
  // Of the whole attempt: the rate of a moment is the asker's to make, from two looks.
  // The first step is where the time begins, so it does not count. The worker stamps its progress
  // itself: a look that comes late is as exact as one that comes at once.
  const std::int64_t first = page.first_step_ns.load();
  const std::int64_t newest = page.changed_ns.load();
  if (steps > 1 && first != 0 && newest > first) {
    worker.steps_per_second =
        static_cast<double>(steps - 1) * 1e9 / static_cast<double>(newest - first);
  }
  if (const std::uint64_t epoch = page.epoch_plus_1.load(); epoch != 0) {
    worker.epoch = static_cast<std::int64_t>(epoch) - 1;
  }
  if (page.has_loss.load() != 0) {
    worker.loss = page.loss.load();
  }
  // Their sum tells ranks apart within a step; which group it was is the hang handler's question.
  for (const CollectiveCounters& group : page.collectives) {
    worker.collectives += group.entered.load();
  }
}

/// One read for each worker: with its threads and children it would take milliseconds.
void add_usage(WorkerSnapshot& worker) {
  if (const auto stat = read_proc_stat(worker.pid)) {
    // proc(5): times are in units of sysconf(_SC_CLK_TCK), memory is in pages.
    static const auto kPerSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    static const auto kPageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    worker.cpu = std::chrono::nanoseconds(stat->cpu_ticks * (1'000'000'000 / kPerSecond));
    worker.resident_bytes = stat->resident_pages * kPageBytes;
  }
}

}  // namespace ddprun
