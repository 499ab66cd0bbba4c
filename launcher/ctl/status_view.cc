#include "launcher/ctl/status_view.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

using nlohmann::json;

/// Incidents that are shown, the newest; --json has them all.
constexpr std::size_t kIncidentsShownMax = 10;

// An agent of another version may answer, so nothing is taken for granted: every field is looked up
// by its name and its type.

const json& field(const json& object, const char* name) {
  static const json kNone;
  if (!object.is_object()) {
    return kNone;
  }
  const auto found = object.find(name);
  return found == object.end() ? kNone : *found;
}

bool is_set(const json& object, const char* name) {
  const json& value = field(object, name);
  return value.is_boolean() && value.get<bool>();
}

/// Many downtimes are below a second: they keep their digits.
std::string time_text(double ms) {
  constexpr double kMsPerSecond = 1e3;
  constexpr double kNsPerMs = 1e6;
  return ms < kMsPerSecond
             ? fmt::format("{:.0f} ms", ms)
             : seconds_text(std::chrono::nanoseconds(static_cast<std::int64_t>(ms * kNsPerMs)));
}

/// Empty for a node that is no member of the attempt.
std::string ranks_of(const json& node) {
  const std::string first = text_in(node, "first_rank");
  const std::string last = text_in(node, "last_rank");
  return first == "-" ? "" : first == last ? "  rank " + first : "  ranks " + first + "-" + last;
}

/// What the job does, and which agent says so.
std::string head_of(const json& status) {
  std::string text = "job " + text_in(status, "job_id") + " (" + text_in(status, "program") + "): ";
  text += field(status, "state").is_string() ? text_in(status, "state")
          : is_set(status, "healthy")        ? "runs or gathers"
                                             : "does not run";
  if (!field(status, "attempt").is_null()) {
    text +=
        ", attempt " + text_in(status, "attempt") + ", world size " + text_in(status, "world_size");
  }
  if (!field(status, "why_unhealthy").is_null()) {
    text += "; " + text_in(status, "why_unhealthy");
  }
  const json& agent = field(status, "agent");
  text += fmt::format("\nagent on {}, pid {}, {}", text_in(agent, "node"), text_in(agent, "pid"),
                      text_in(agent, "state"));
  // What is missing here is said, and not left out: else it would look like none.
  const std::string source = text_in(status, "source");
  if (source == "coordinator") {
    text += ", coordinator of the job";
    text += field(status, "coordinator").is_string() ? " at " + text_in(status, "coordinator") : "";
  } else {
    text += "; the coordinator at " + text_in(status, "coordinator") + " knows all nodes";
    text += source == "copy" ? fmt::format(", and what follows of the job is {} old",
                                           time_in(status, "source_age_ms"))
                             : ", and what the job has been through";
  }
  return text + "\n";
}

/// Nothing where the agent does not know it; the head says that.
std::string story_of(const json& status) {
  if (field(status, "attempts").is_null()) {
    return "";
  }
  std::string text =
      fmt::format("restarts: {} used, {} left; incidents: {}\n", text_in(status, "restarts_used"),
                  text_in(status, "restarts_left"), text_in(status, "incidents_count"));
  const json& accounts = field(status, "accounts");
  if (field(accounts, "ratio").is_number()) {
    text += fmt::format(
        "effective training time: {:.1f} % of {}, {} down{}\n", 100 * number_in(accounts, "ratio"),
        time_in(accounts, "wall_ms"), time_in(accounts, "downtime_ms"),
        is_set(accounts, "steps_told") ? "" : "; an upper bound, no steps are told");
  }
  if (is_set(accounts, "steps_told")) {
    text += "steps: " + text_in(accounts, "steps") +
            ", done again: " + text_in(accounts, "replayed_steps") + "\n";
  }
  if (const json& saved = field(status, "checkpoint"); saved.is_object()) {
    const bool by_step = field(saved, "epoch").is_null();
    text += std::string("newest snapshot: ") + (by_step ? "step " : "epoch ") +
            text_in(saved, by_step ? "step" : "epoch") + "\n";
  }
  return text;
}

/// Those that are here in the order of their arrival, then the refused and the lost.
std::string nodes_of(const json& status) {
  std::string text;
  if (!field(status, "nodes").is_array()) {
    return text;
  }
  text += "nodes:\n";
  for (const json& node : field(status, "nodes")) {
    text +=
        fmt::format("  {}  {}  {}{}  here for {}{}{}{}\n", text_in(node, "number"),
                    text_in(node, "node"), text_in(node, "state"), ranks_of(node),
                    time_in(node, "since_ms"), is_set(node, "coordinator") ? ", coordinator" : "",
                    is_set(node, "leaving") ? ", leaves" : "",
                    field(node, "address").is_null() ? "" : ", " + text_in(node, "address"));
  }
  for (const char* const kind : {"refused", "lost"}) {
    for (const json& node : field(status, kind)) {
      text += fmt::format("  {}  {} {} ago: {}\n", text_in(node, "node"), kind,
                          time_in(node, "ago_ms"), text_in(node, "why"));
    }
  }
  return text;
}

/// The downtime of the newest incident goes on until the workers of the next attempt are there.
std::string down_so_far(const json& incident, const json& status) {
  const double wall = number_in(field(status, "accounts"), "wall_ms");
  const double so_far = wall - number_in(incident, "at_ms");
  const bool is_over = !field(incident, "spawn_ms").is_null();
  return is_over || so_far <= 0 ? time_in(incident, "downtime_ms") : time_text(so_far) + " so far";
}

/// One line each, as in the summary at the end of the job.
std::string incidents_of(const json& status) {
  const json& all = field(status, "incidents");
  if (!all.is_array() || all.empty()) {
    return "";
  }
  // The newest are what people ask about; a job of weeks may have a hundred.
  const std::size_t first = all.size() - std::min(all.size(), kIncidentsShownMax);
  std::string text = first == 0 ? "incidents:\n" : "newest incidents:\n";
  for (std::size_t i = first; i < all.size(); ++i) {
    const bool is_newest = i + 1 == all.size();
    text += fmt::format("  {}  attempt {}: {}; down {}\n", text_in(all[i], "incident"),
                        text_in(all[i], "attempt"), text_in(all[i], "reason"),
                        is_newest ? down_so_far(all[i], status) : time_in(all[i], "downtime_ms"));
  }
  DDP_CHECK(!text.empty(), "incidents have a line each");
  return text;
}

/// Of this node alone: other nodes' workers are their agents' to show.
std::string workers_of(const json& status) {
  std::string text;
  for (const json& worker : field(status, "workers")) {
    text += fmt::format("  rank {}  pid {}", text_in(worker, "rank"), text_in(worker, "pid"));
    if (!is_set(worker, "running")) {
      text += field(worker, "signal").is_null() ? "  exited with " + text_in(worker, "exit_code")
                                                : "  ended by " + text_in(worker, "signal");
    } else {
      if (!field(worker, "phase").is_null()) {
        text += fmt::format("  {}, step {}", text_in(worker, "phase"), text_in(worker, "steps"));
      }
      if (field(worker, "steps_per_second").is_number()) {
        text += fmt::format(", {:.3g} steps/s", number_in(worker, "steps_per_second"));
      }
      if (field(worker, "loss").is_number()) {
        text += fmt::format(", loss {:.4g}", number_in(worker, "loss"));
      }
      text += fmt::format("  {} of processor time, {}", time_in(worker, "cpu_ms"),
                          bytes_text(number_in(worker, "resident_bytes")));
    }
    text += "\n";
  }
  return text.empty() ? "no worker runs on this node\n" : "workers of this node:\n" + text;
}

}  // namespace

std::string text_in(const json& object, const char* name) {
  const json& value = field(object, name);
  if (value.is_string()) {
    return printable(value.get<std::string>());
  }
  return value.is_number() ? value.dump() : "-";
}

double number_in(const json& object, const char* name) {
  const json& value = field(object, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::string time_in(const json& object, const char* name) {
  const json& value = field(object, name);
  return value.is_number() ? time_text(value.get<double>()) : "-";
}

/// Powers of 1024, as the kernel counts memory.
std::string bytes_text(double bytes) {
  constexpr double kStep = 1024;
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= kStep && unit + 1 < kUnits.size()) {
    bytes /= kStep;
    ++unit;
  }
  DDP_CHECK(unit < kUnits.size(), "the largest unit has no next one");
  return fmt::format("{:.{}f} {}", bytes, bytes < 10 && unit > 0 ? 1 : 0, kUnits[unit]);
}

/// What concerns all comes first, as the top of a terminal is read first.
std::string status_text(const json& status) {
  return head_of(status) + story_of(status) + nodes_of(status) + incidents_of(status) +
         workers_of(status);
}

}  // namespace ddprun
