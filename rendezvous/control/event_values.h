// Values as the event log writes them (docs/events.md). Pure; internal to control.
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

const char* name_of(IncidentKind kind);
const char* name_of(StopWish wish);
const char* name_of(RendezvousStatus::For waits_for);

}  // namespace ddprun::event_values
