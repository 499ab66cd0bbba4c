#include "rendezvous/membership/report_schedule.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

using Time = ReportSchedule::Time;

std::vector<Time> told(ReportSchedule& pace, Time from, Time to, bool changes) {
  std::vector<Time> times;
  for (Time now = from; now <= to; now += 100ms) {
    if (changes) {
      pace.changed(now);
    }
    if (pace.due(now)) {
      times.push_back(now);
    }
  }
  return times;
}

}  // namespace

TEST_CASE("First after two seconds, then at doubled intervals up to a minute") {
  ReportSchedule pace;
  pace.begin(0s);
  CHECK(told(pace, 0s, 200s, false) == std::vector<Time>{2s, 6s, 14s, 30s, 62s, 122s, 182s});
}

TEST_CASE("A change is told once it has settled, never before the first report") {
  ReportSchedule pace;
  pace.begin(0s);
  pace.changed(0s);
  CHECK(told(pace, 0s, 5s, false) == std::vector<Time>{2s});
  pace.changed(5s);
  pace.changed(5400ms);  // does not put it off
  CHECK_FALSE(pace.due(5400ms));
  CHECK(pace.due(5500ms));
}

TEST_CASE("Changes without end are no flood") {
  ReportSchedule pace;
  pace.begin(0s);
  const auto times = told(pace, 0s, 600s, true);
  CHECK(times.size() <= 45);
  CHECK(times[0] == 2s);
  CHECK(times[1] == 3s);
  CHECK(times[2] == 5s);
  CHECK(times.back() - times[times.size() - 2] == 16s);
}
