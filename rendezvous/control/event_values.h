// Values as the event log (docs/events.md) and the status (docs/operations.md) write them. Pure.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "rendezvous/membership/event.h"
#include "rendezvous/membership/incident.h"
#include "rendezvous/membership/rendezvous_status.h"

namespace ddprun::event_values {

/// ISO 8601, in UTC, with milliseconds.
std::string iso_time(std::chrono::sys_time<std::chrono::milliseconds> time);
/// Milliseconds with three decimals: durations of the ledger are whole microseconds.
nlohmann::ordered_json ms(std::chrono::nanoseconds time);

/// Null where there is none, or an empty text.
nlohmann::ordered_json or_null(const std::optional<std::chrono::nanoseconds>& value);
nlohmann::ordered_json or_null(const std::optional<std::int64_t>& value);
nlohmann::ordered_json or_null(const std::optional<double>& value);
nlohmann::ordered_json or_null(const std::string& text);

/// Downtime and its parts, where the next attempt went on, and what was done again.
nlohmann::ordered_json downtime_of(const Incident& incident);
/// Times and steps from what workers report are null where no worker reports: 0 would mean that
/// nothing was repeated.
nlohmann::ordered_json accounts_of(const Accounts& accounts);

const char* name_of(IncidentKind kind);
const char* name_of(StopWish wish);
const char* name_of(RendezvousStatus::For waits_for);

}  // namespace ddprun::event_values
