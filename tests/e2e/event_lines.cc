#include "tests/e2e/event_lines.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "tests/support/event_schema.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {

using nlohmann::json;

std::vector<json> events_in(const std::string& path) {
  static const EventSchema schema(read_file(DDPRUN_EVENTS_PAGE));
  std::istringstream in(read_file(path));
  std::vector<json> found;
  for (std::string line; std::getline(in, line);) {
    for (const std::string& fault : schema.faults(line)) {
      FAIL_CHECK(fault);
    }
    found.push_back(json::parse(line));
  }
  return found;
}

std::vector<json> all_of(const std::vector<json>& events, const std::string& name) {
  std::vector<json> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const json& one) { return one["event"] == name; });
  return found;
}

json last_of(const std::vector<json>& events, const std::string& name) {
  const auto found = all_of(events, name);
  INFO(name);
  REQUIRE_FALSE(found.empty());
  return found.back();
}

double time_of(const json& event) {
  int year = 0, month = 0, day = 0, hour = 0, minute = 0;
  double second = 0;
  REQUIRE(std::sscanf(event["time"].get<std::string>().c_str(), "%d-%d-%dT%d:%d:%lfZ", &year,
                      &month, &day, &hour, &minute, &second) == 6);
  using namespace std::chrono;
  const sys_days date{std::chrono::year(year) / month / day};
  return static_cast<double>(date.time_since_epoch().count()) * 86'400'000.0 +
         (hour * 60.0 + minute) * 60'000.0 + second * 1'000.0;
}

}  // namespace ddprun::test
