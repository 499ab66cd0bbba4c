#include "agent/hang/hang_detector.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

using Time = HangDetector::Time;
using std::chrono::milliseconds;

/// A hundredth of a processor, and what a clock that counts in ticks may be wrong by.
constexpr int kIdlePart = 100;
constexpr milliseconds kTicks{20};
/// If a check runs this late, the whole node was suspended (a virtual machine that migrated).
/// Workers then get kMoment to report before they are judged.
constexpr milliseconds kLate{500};
constexpr milliseconds kMoment{500};
constexpr milliseconds kLookMin{20};

}  // namespace

HangDetector::HangDetector(HangTimeouts timeouts, Time started)
    : timeouts_(timeouts), started_(started) {
  DDP_CHECK(timeouts.progress > Time(0), "a rule that is off is not made");
  DDP_CHECK(timeouts.start >= timeouts.progress, "the start may take longer, not less long");
}

void HangDetector::watch_idle(Time now, const std::vector<WorkerSigns>& workers) {
  // A worker counts as busy until the end of its first quiet time, which begins with the attempt.
  watched_.resize(workers.size(), Watched{started_, {}, 0});
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const WorkerSigns& worker = workers[i];
    Watched& seen = watched_[i];
    // Timers and background threads use a little also in a worker that waits: a hundredth of a
    // processor is below any training.
    const Time allowed = (now - seen.since) / kIdlePart + kTicks;
    // A sum that shrinks has lost a child that was not reaped: something happened, so the time
    // starts anew.
    if (worker.output != seen.output || worker.cpu < seen.cpu || worker.cpu - seen.cpu > allowed) {
      seen = {now, worker.cpu, worker.output};
    }
  }
}

HangDetector::Answer HangDetector::look(Time now, const std::vector<WorkerSigns>& workers) {
  // The agent itself was kept from running, and its workers with it: their old stamps prove nothing
  // yet.
  if (expected_ && now > *expected_ + kLate) {
    not_before_ = now + kMoment;
  }
  watch_idle(now, workers);
  const bool told =
      std::any_of(workers.begin(), workers.end(), [](const auto& w) { return w.runs && w.told; });
  Answer answer;
  // With stamps the moment of the deadline is known. Processor time is a sample: eight looks per
  // timeout bound its error.
  answer.look_again = now + timeouts_.progress / (told ? 1 : 8);
  bool all_idle = true;
  for (std::size_t i = 0; i < workers.size(); ++i) {
    const WorkerSigns& worker = workers[i];
    // Where any worker uses the runtime only those that do are judged: a helper without it may be
    // silent for hours.
    if (!worker.runs || (told && (!worker.told || worker.ended))) {
      continue;
    }
    const Time patience = worker.told && !worker.stepped ? timeouts_.start : timeouts_.progress;
    const Time since = worker.told ? std::max(worker.changed_at, started_) : watched_[i].since;
    if (now - since >= patience) {
      answer.still.push_back(static_cast<int>(i));
      answer.still_for = std::max(answer.still_for, now - since);
    } else {
      all_idle = false;
      answer.look_again = std::min(answer.look_again, since + patience);
    }
  }
  // One busy worker may be what the others wait for.
  if (!told && !all_idle) {
    answer.still.clear();
  }
  if (now < not_before_ && !answer.still.empty()) {
    answer.still.clear();
    answer.look_again = not_before_;
  }
  answer.look_again = std::max(answer.look_again, now + kLookMin);
  expected_ = answer.look_again;
  return answer;
}

}  // namespace ddprun
