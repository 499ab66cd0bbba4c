#include "rendezvous/control/event_values.h"

#include <fmt/chrono.h>

#include <nlohmann/json.hpp>
#include <utility>

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

/// The parts follow each other without a gap, so a reader can add them up: their sum is the first
/// field.
ordered_json downtime_of(const Incident& incident) {
  const BreakDown& parts = incident.parts;
  return {{"downtime_ms", ms(parts.sum())},
          {"detect_ms", ms(parts.detect)},
          {"stop_ms", ms(parts.stop)},
          {"rendezvous_ms", or_null(parts.rendezvous)},
          {"spawn_ms", or_null(parts.spawn)},
          {"first_step_ms", or_null(parts.first_step)},
          {"in_vain", parts.in_vain},
          {"resumed_epoch", or_null(number_in(SnapshotUnit::epoch, incident.resumed_from))},
          {"resumed_step", or_null(number_in(SnapshotUnit::step, incident.resumed_from))},
          {"replayed_steps", or_null(incident.lost.steps)},
          {"replayed_ms", or_null(incident.lost.time)}};
}

/// A copy of these travels with each failover. So they mean the same whoever tells them.
ordered_json accounts_of(const Accounts& accounts) {
  const TimeTrack& track = accounts.track();
  ordered_json downtime;
  for (std::size_t kind = 0; kind < kIncidentKinds; ++kind) {
    downtime[name_of(static_cast<IncidentKind>(kind))] = ms(track.downtime[kind]);
  }
  const auto if_told = [&](ordered_json value) {
    return accounts.steps_told ? std::move(value) : ordered_json(nullptr);
  };
  return {{"wall_ms", ms(accounts.wall)},
          {"startup_ms", ms(track.startup)},
          {"productive_ms", ms(track.productive)},
          {"replayed_ms", if_told(ms(track.replayed))},
          {"downtime_ms", ms(track.down())},
          {"downtime_by_kind", downtime},
          {"ratio", or_null(accounts.ratio())},
          {"steps_told", accounts.steps_told},
          {"steps", if_told(accounts.steps)},
          {"replayed_steps", if_told(accounts.replayed_steps)}};
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
