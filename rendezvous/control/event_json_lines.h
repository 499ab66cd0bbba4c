// EventJson::Lines: the lines of one event, while they are made. Internal to event_json.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/control/event_json.h"

namespace ddprun {

/// What is common to all is put before each one's own fields.
struct EventJson::Lines {
  const Job& job;
  std::string time;
  Instant now;
  const Membership& membership;
  std::vector<std::string> text = {};

  void add(const char* event, const nlohmann::ordered_json& fields) {
    add(event, membership.attempt(), fields);
  }
  void add(const char* event, std::optional<AttemptNumber> attempt,
           const nlohmann::ordered_json& fields) {
    nlohmann::ordered_json line = {{"event", event}, {"time", time}, {"job_id", job.job_id}};
    line["term"] = number(membership.leadership().in_use().term);
    line["attempt"] =
        attempt ? nlohmann::ordered_json(number(*attempt)) : nlohmann::ordered_json(nullptr);
    line.update(fields);
    // What workers and strangers send need not be UTF-8, and one bad byte must not lose the line.
    text.push_back(line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
};

}  // namespace ddprun
