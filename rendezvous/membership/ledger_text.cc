#include "rendezvous/membership/ledger_text.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

using Time = std::chrono::nanoseconds;

long long whole_milliseconds(Time time) {
  return std::chrono::floor<std::chrono::milliseconds>(time).count();
}

/// Three figures or so: "812 ms", "8.1 s", "12 min 3 s", "3 h 20 min", "12 d 4 h".
std::string short_time(Time time) {
  const long long ms = whole_milliseconds(time);
  if (ms < 1'000) {
    return std::to_string(ms) + " ms";
  }
  if (ms < 60'000) {
    return fmt::format("{}.{} s", ms / 1'000, ms % 1'000 / 100);
  }
  const long long seconds = ms / 1'000;
  const auto two = [](long long big, const char* of_big, long long small, const char* of_small) {
    return std::to_string(big) + of_big + std::to_string(small) + of_small;
  };
  if (seconds < 3'600) {
    return two(seconds / 60, " min ", seconds % 60, " s");
  }
  if (seconds < 86'400) {
    return two(seconds / 3'600, " h ", seconds % 3'600 / 60, " min");
  }
  return two(seconds / 86'400, " d ", seconds % 86'400 / 3'600, " h");
}

}  // namespace

/// Parts stand in the order of time, so the first one that is missing says how far it got.
std::string break_down_text(const BreakDown& parts) {
  std::string text;
  Time until{};
  // Differences of rounded sums, so that they add up to the rounded sum.
  const auto add = [&](const char* name, std::optional<Time> part) {
    if (part) {
      const long long before = whole_milliseconds(until);
      until += *part;
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                          whole_milliseconds(until) - before);
    }
  };
  add("detect", parts.detect);
  add("stop", parts.stop);
  add("rendezvous", parts.rendezvous);
  add("spawn", parts.spawn);
  add("first step", parts.first_step);
  DDP_CHECK(!text.empty(), "detecting and stopping are always known");
  return text + " ms" + (parts.in_vain ? " in vain" : "");
}

/// Without steps (after a takeover their number is not known) the time still is.
std::string lost_work_text(const LostWork& lost, bool goes_on) {
  if (!lost.time || (*lost.time == Time(0) && lost.steps.value_or(0) == 0)) {
    return {};
  }
  const std::string_view what = goes_on ? "done again" : "that no snapshot has";
  if (!lost.steps) {
    return fmt::format("{} {}", short_time(*lost.time), what);
  }
  return fmt::format("{} step{} ({}) {}", *lost.steps, *lost.steps == 1 ? "" : "s",
                     short_time(*lost.time), what);
}

/// Without the worker runtime the ratio is an upper bound: loading and work done again count in it.
std::string accounts_text(const Accounts& accounts, int incidents) {
  char ratio[32];
  // Rounded down: what was not whole is not shown as 100.0.
  std::snprintf(ratio, sizeof ratio, "%.1f", std::floor(accounts.ratio().value_or(0) * 1000) / 10);
  std::string text = fmt::format("effective training time {} % of {}: {}{}{} down", ratio,
                                 short_time(accounts.wall), incidents,
                                 incidents == 1 ? " incident, " : " incidents, ",
                                 short_time(accounts.track().down()));
  if (accounts.steps_told) {
    return text + ", " + short_time(accounts.by_step.replayed) + " replayed";
  }
  return text + " (at most: its workers tell no steps)";
}

}  // namespace ddprun
