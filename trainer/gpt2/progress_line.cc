#include "trainer/gpt2/progress_line.h"

#include <algorithm>
#include <cstdio>

#include "trainer/metrics/resident_memory.h"

namespace ddp {

/// People plot these lines: a field may be added at the end, and none may change its name.
std::string progress_line(const StepRecord& step, const CosineSchedule& schedule,
                          const Progressed& job, const StepTimes& times) {
  // Means of a step: sums would grow with --log-freq.
  const auto milliseconds = [&](double seconds) {
    return 1e3 * seconds / static_cast<double>(std::max<std::int64_t>(times.steps, 1));
  };
  char text[400];
  std::snprintf(text, sizeof text,
                "step %lld/%lld | epoch %lld | running_loss %.4f | lr %.3g | norm %.3f | "
                "tokens_per_s %.0f | memory_mb %.0f | time/total %.2f ms | data %.2f | "
                "forward %.2f | backward %.2f | sync %.2f | update %.2f",
                static_cast<long long>(step.step), static_cast<long long>(schedule.total_steps),
                static_cast<long long>(step.epoch), job.loss, step.learning_rate, job.norm,
                job.tokens / times.total_s, static_cast<double>(resident_bytes()) / 1e6,
                milliseconds(times.total_s), milliseconds(times.data_s),
                milliseconds(times.forward_s), milliseconds(times.backward_s),
                milliseconds(times.sync_s), milliseconds(times.update_s));
  return text;
}

}  // namespace ddp
