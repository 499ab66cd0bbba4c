// What an event log (--event-log) holds, each line held against docs/events.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ddprun::test {

/// All lines of the file. A line that is not as the page says fails the test.
std::vector<nlohmann::json> events_in(const std::string& path);
/// Those of one name.
std::vector<nlohmann::json> all_of(const std::vector<nlohmann::json>& events,
                                   const std::string& name);
/// The newest of one name; the test fails and ends without it.
nlohmann::json last_of(const std::vector<nlohmann::json>& events, const std::string& name);
/// Its wall clock, in ms.
double time_of(const nlohmann::json& event);

}  // namespace ddprun::test
