#include "launcher/ctl/top_view.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "launcher/ctl/status_view.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

using nlohmann::json;

const json& workers_in(const json& status) {
  static const json kNone = json::array();
  const auto found = status.is_object() ? status.find("workers") : status.end();
  return status.is_object() && found != status.end() && found->is_array() ? *found : kNone;
}

/// It uses the worker runtime, and runs.
bool tells(const json& worker) {
  const auto steps = worker.find("steps");
  return worker.value("running", false) && steps != worker.end() && steps->is_number();
}

/// The same process in the look before; null: it is new.
/// By the pid: in another attempt a rank is another process, whose counts begin anew.
const json* same_in(const json& before, const json& worker) {
  for (const json& one : workers_in(before)) {
    if (number_in(one, "pid") == number_in(worker, "pid")) {
      return &one;
    }
  }
  return nullptr;
}

/// Rates are of the time between two looks; at the first one there is only the mean since the first
/// step, which the agent tells.
std::string line_of(const json* before, const json& worker, double seconds, bool slowest) {
  std::string cpu = "-";
  std::string rate = "-";
  if (before != nullptr && seconds > 0) {
    constexpr double kMsPerPercent = 10;  // of a second
    cpu = fmt::format("{:.0f}", (number_in(worker, "cpu_ms") - number_in(*before, "cpu_ms")) /
                                    kMsPerPercent / seconds);
    if (tells(worker)) {
      rate = fmt::format("{:.3g}",
                         (number_in(worker, "steps") - number_in(*before, "steps")) / seconds);
    }
  } else if (tells(worker)) {
    rate = fmt::format("{:.3g}", number_in(worker, "steps_per_second"));
  }
  return fmt::format("{:>6} {:>8} {:>6} {:>10} {:>10} {:>9}  {}{}\n", text_in(worker, "rank"),
                     text_in(worker, "pid"), cpu, bytes_text(number_in(worker, "resident_bytes")),
                     text_in(worker, "steps"), rate,
                     worker.value("running", false) ? text_in(worker, "phase") : "ended",
                     slowest ? ", the others wait for it" : "");
}

}  // namespace

std::optional<int> slowest_rank(const json& status) {
  const json* slowest = nullptr;
  bool differ = false;
  // Within a step, ranks differ by the collectives that they have entered; who waits in one has
  // entered it, and who is waited for has not.
  const auto place = [](const json& worker) {
    return std::pair(number_in(worker, "steps"), number_in(worker, "collectives"));
  };
  for (const json& worker : workers_in(status)) {
    if (!tells(worker)) {
      continue;
    }
    differ = differ || (slowest != nullptr && place(worker) != place(*slowest));
    if (slowest == nullptr || place(worker) < place(*slowest)) {
      slowest = &worker;
    }
  }
  DDP_CHECK(!differ || slowest != nullptr, "one of those that differ is the slowest");
  return differ ? std::optional(static_cast<int>(number_in(*slowest, "rank"))) : std::nullopt;
}

/// Workers in the order of their ranks, and not by what they use: a line that moves cannot be read.
std::string top_text(const json& before, const json& now, std::chrono::nanoseconds between,
                     const std::vector<GpuUsage>& gpus) {
  const auto slowest = slowest_rank(now);
  const double seconds = std::chrono::duration<double>(between).count();
  std::string text =
      fmt::format("job {}, attempt {}, {}\n{:>6} {:>8} {:>6} {:>10} {:>10} {:>9}\n",
                  text_in(now, "job_id"), text_in(now, "attempt"), text_in(now, "time"), "rank",
                  "pid", "cpu %", "memory", "step", "steps/s");
  for (const json& worker : workers_in(now)) {
    const bool waited_for = slowest && number_in(worker, "rank") == *slowest;
    text += line_of(same_in(before, worker), worker, seconds, waited_for);
  }
  for (const GpuUsage& gpu : gpus) {
    text += fmt::format("GPU {}: {} % busy, {} of {}\n", gpu.index, gpu.busy_percent,
                        bytes_text(static_cast<double>(gpu.used_bytes)),
                        bytes_text(static_cast<double>(gpu.total_bytes)));
  }
  return text;
}

}  // namespace ddprun
