#include "agent/process/timer_table.h"

#include <catch2/catch.hpp>

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

WallTime at(std::int64_t seconds) {
  return WallTime(std::chrono::seconds(seconds));
}

TimerRequest request(pid_t pid, const std::string& scope, std::int64_t seconds, int signal = 9) {
  return {pid, scope, at(seconds), signal};
}

std::string reason(const std::string& line) {
  std::string why;
  CHECK_FALSE(parse_timer_request(line, why));
  return why;
}

}  // namespace

TEST_CASE("a line as PyTorch's client writes it is read") {
  std::string why;
  const auto read = parse_timer_request(
      R"({"version": 1, "pid": 42, "scope_id": "step", "expiration_time": 1700000000.25, )"
      R"("signal": 9})",
      why);
  REQUIRE(read);
  CHECK(read->pid == 42);
  CHECK(read->scope == "step");
  CHECK(read->expires == at(1'700'000'000) + 250ms);
  CHECK(read->signal == 9);
  const auto release = parse_timer_request(
      R"({"version": 1, "pid": 42, "scope_id": "step", "expiration_time": -1, "signal": 0})", why);
  REQUIRE(release);
  CHECK_FALSE(release->expires);
}

TEST_CASE("a line that is none is refused with a reason") {
  CHECK(reason("") == "it is no JSON object");
  CHECK(reason("[1]") == "it is no JSON object");
  CHECK(reason("{") == "it is no JSON object");
  CHECK(reason(R"({"scope_id": "a", "expiration_time": 1, "signal": 9})") == "it has no pid");
  CHECK(reason(R"({"pid": -1, "scope_id": "a", "expiration_time": 1})") == "it has no pid");
  CHECK(reason(R"({"pid": 99999999999, "scope_id": "a", "expiration_time": 1})") ==
        "it has no pid");
  CHECK(reason(R"({"pid": 1, "expiration_time": 1})") == "it has no scope_id");
  CHECK(reason(R"({"pid": 1, "scope_id": "a", "expiration_time": "x"})") ==
        "it has no expiration_time");
  std::string why;
  const auto far = parse_timer_request(R"({"pid":1,"scope_id":"a","expiration_time":1e300})", why);
  REQUIRE(far);
  CHECK(far->expires > at(1'000'000'000));
}

TEST_CASE("a timer expires at its time, once, and takes the process's others with it") {
  TimerTable table;
  CHECK(table.apply(request(1, "a", 10)));
  CHECK(table.apply(request(1, "b", 20)));
  CHECK(table.apply(request(2, "a", 15)));
  CHECK(table.next_expiry() == at(10));
  CHECK(table.take_expired(at(9)).empty());
  const auto expired = table.take_expired(at(12));
  REQUIRE(expired.size() == 1);
  CHECK(expired[0].pid == 1);
  CHECK(expired[0].scope == "a");
  CHECK(expired[0].signal == 9);
  CHECK(expired[0].late == 2s);
  CHECK(table.size() == 1);
  CHECK(table.next_expiry() == at(15));
}

TEST_CASE("to set a timer again replaces it, and to release it ends it") {
  TimerTable table;
  table.apply(request(1, "a", 10));
  table.apply(request(1, "a", 30));
  CHECK(table.size() == 1);
  CHECK(table.take_expired(at(20)).empty());
  table.apply({1, "a", std::nullopt, 0});
  CHECK(table.size() == 0);
  CHECK_FALSE(table.next_expiry());
}

TEST_CASE("of several expired timers of a process the first with a signal speaks") {
  TimerTable table;
  table.apply(request(1, "quiet", 5, 0));
  table.apply(request(1, "loud", 6, 15));
  table.apply(request(1, "late", 7, 9));
  table.apply(request(2, "quiet", 5, 0));
  const auto expired = table.take_expired(at(8));
  REQUIRE(expired.size() == 2);
  CHECK(expired[0].scope == "loud");
  CHECK(expired[0].signal == 15);
  CHECK(expired[1].signal == 0);
}

TEST_CASE("timers have a bound") {
  TimerTable table;
  bool all_taken = true;
  for (std::size_t i = 0; i < TimerTable::kTimersMax; ++i) {
    all_taken = all_taken && table.apply(request(1, std::to_string(i), 10));
  }
  REQUIRE(all_taken);
  CHECK_FALSE(table.apply(request(2, "one more", 10)));
  CHECK(table.apply(request(1, "7", 11)));  // one that is there may be set again
  CHECK(table.take_expired(at(12)).size() == 1);
  CHECK(table.size() == 0);
}

TEST_CASE("lines come whole whatever the pieces, and one without an end is dropped") {
  TimerLines lines;
  std::vector<std::string> seen;
  const auto keep = [&seen](std::string_view line) { seen.emplace_back(line); };
  lines.feed("ab", keep);
  lines.feed("c\nd", keep);
  lines.feed("\n\n", keep);
  lines.feed(std::string(10'000, 'x'), keep);
  lines.feed("y\ne\n", keep);
  CHECK(seen == std::vector<std::string>{"abc", "d", "e"});
}
