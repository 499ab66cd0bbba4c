#include "agent/operations/kubeflow_status.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "rendezvous/base/check.h"
#include "rendezvous/control/event_values.h"

namespace ddprun {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kScheme = "https://";
constexpr int kHttpsPort = 443;

/// Values are text there, whatever they are (trainer.kubeflow.org/v1alpha1, Metric).
ordered_json metric(const char* name, const std::string& value) {
  return {{"name", name}, {"value", value}};
}

/// No digit more than a float has: what is shown is a training's loss. A loss that is not a number
/// is one to look at.
std::string number_text(double value) {
  return fmt::format("{:.6g}", value);
}

}  // namespace

Result<StatusUrl> parse_status_url(std::string_view url) {
  const std::string shown(url.substr(0, 200));
  if (!url.starts_with(kScheme)) {
    return Error{"'" + shown + "' does not begin with https://", {}, {}};
  }
  url.remove_prefix(kScheme.size());
  const std::size_t slash = std::min(url.find('/'), url.size());
  if (slash == 0) {
    return Error{"'" + shown + "' names no server", {}, {}};
  }
  auto server = parse_endpoint(url.substr(0, slash), kHttpsPort);
  if (!server) {
    return Error{"'" + shown + "' names no server: " + server.error().what, {}, {}};
  }
  const auto is_plain = [](char c) { return c > ' ' && c < '\x7f'; };
  if (!std::all_of(url.begin(), url.end(), is_plain)) {
    return Error{"'" + shown + "' has a character that no URL has", {}, {}};
  }
  return StatusUrl{std::move(*server), slash < url.size() ? std::string(url.substr(slash)) : "/"};
}

std::optional<std::string> kubeflow_status(const JobSnapshot& job) {
  const auto first = std::find_if(job.workers.begin(), job.workers.end(),
                                  [](const WorkerSnapshot& one) { return one.rank == 0; });
  if (first == job.workers.end() || first->steps.value_or(0) == 0) {
    return std::nullopt;
  }
  const WorkerSnapshot& worker = *first;
  DDP_CHECK(worker.steps > 0, "it has told of a step");
  ordered_json status;
  ordered_json metrics = ordered_json::array();
  if (worker.run_step) {
    const std::int64_t step = std::clamp<std::int64_t>(*worker.run_step, 0, worker.run_steps);
    DDP_CHECK(worker.run_steps > 0, "a plan has steps");
    // 100 is for a run that is over: its last save may still fail.
    const bool is_over = worker.exit && step == worker.run_steps;
    status["progressPercentage"] =
        std::min<std::int64_t>(100 * step / worker.run_steps, is_over ? 100 : 99);
    // By the rate of the whole attempt: one of a moment would make the time left jump about.
    if (worker.steps_per_second && *worker.steps_per_second > 0) {
      status["estimatedRemainingSeconds"] = static_cast<std::int64_t>(
          std::ceil(static_cast<double>(worker.run_steps - step) / *worker.steps_per_second));
    }
    metrics.push_back(metric("step", std::to_string(step)));
  } else {
    metrics.push_back(metric("step_of_attempt", std::to_string(*worker.steps)));
  }
  if (worker.epoch) {
    metrics.push_back(metric("epoch", std::to_string(*worker.epoch)));
  }
  if (worker.loss) {
    metrics.push_back(metric("loss", number_text(*worker.loss)));
  }
  if (worker.steps_per_second) {
    metrics.push_back(metric("steps_per_second", number_text(*worker.steps_per_second)));
  }
  metrics.push_back(metric("world_size", std::to_string(job.world_size)));
  status["metrics"] = std::move(metrics);
  status["lastUpdatedTime"] = event_values::iso_time(job.time);
  return ordered_json{{"trainerStatus", std::move(status)}}.dump();
}

}  // namespace ddprun
