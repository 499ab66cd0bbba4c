#include "rendezvous/control/event_values.h"

#include <fmt/chrono.h>

#include <nlohmann/json.hpp>

namespace ddprun::event_values {

using nlohmann::ordered_json;

// A field that is not known is null, and is never left out: a reader can rely on the fields of a
// line. The names below are the schema (docs/events.md). A name that changes needs a new
// kEventSchema.

/// Floor, not a cast: the milliseconds stay positive before 1970, where a broken clock may be.
std::string iso_time(std::chrono::sys_time<std::chrono::milliseconds> time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%FT%T}.{:03}Z", whole, (time - whole).count());
}

/// The ledger cuts its instants to microseconds, so that its sums are exact. A double holds whole
/// microseconds of 285 years.
ordered_json ms(std::chrono::nanoseconds time) {
  return static_cast<double>(std::chrono::floor<std::chrono::microseconds>(time).count()) / 1'000;
}

ordered_json or_null(const std::optional<std::chrono::nanoseconds>& value) {
  return value ? ms(*value) : ordered_json(nullptr);
}

ordered_json or_null(const std::optional<std::int64_t>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json or_null(const std::optional<double>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

ordered_json or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

const char* name_of(IncidentKind kind) {
  switch (kind) {
    case IncidentKind::worker_failed:
      return "worker_failed";
    case IncidentKind::node_lost:
      return "node_lost";
    case IncidentKind::coordinator_lost:
      return "coordinator_lost";
    case IncidentKind::node_joined:
      return "node_joined";
    case IncidentKind::ending:
      return "ending";
    case IncidentKind::node_left:
      return "node_left";
  }
  return "?";
}

const char* name_of(StopWish wish) {
  switch (wish) {
    case StopWish::end:
      return "end";
    case StopWish::preempt:
      return "preempt";
    case StopWish::leave:
      return "leave";
  }
  return "?";
}

const char* name_of(RendezvousStatus::For waits_for) {
  switch (waits_for) {
    case RendezvousStatus::For::nodes:
      return "nodes";
    case RendezvousStatus::For::last_call:
      return "last_call";
    case RendezvousStatus::For::turn:
      return "turn";
  }
  return "?";
}

}  // namespace ddprun::event_values
