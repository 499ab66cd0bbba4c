// StatusView: a status (docs/operations.md) as text for people. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ddprun {

/// `status` is what /status.json gave. Fields of another version that are missing or of another
/// type are shown as not known.
std::string status_text(const nlohmann::json& status);

// A field of a status as text; "-" where it is null or missing. Control characters, which may come
// from other hosts and from workers, are shown as '?'.
std::string text_in(const nlohmann::json& object, const char* name);
/// "85 ms", "1.2 s", of a field in milliseconds.
std::string time_in(const nlohmann::json& object, const char* name);
/// 0 where it is null or missing.
double number_in(const nlohmann::json& object, const char* name);
/// "512 MiB"
std::string bytes_text(double bytes);

}  // namespace ddprun
