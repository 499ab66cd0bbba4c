#include "trainer/metrics/progress_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace ddp {
namespace {

constexpr std::size_t kBarMin = 10;  ///< fewer cells show nothing that the percentage does not
constexpr std::size_t kBarMax = 40;
constexpr double kSecondsMax = 1e9;  ///< thirty years: beyond it an estimate is none

std::string text_of(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

/// "19,900"; small rates keep digits that say something.
std::string rate_text(double rate) {
  if (!std::isfinite(rate) || rate >= 1e15) {
    return text_of("%.3g", rate);
  }
  if (rate < 100) {
    return text_of("%.1f", rate);
  }
  auto digits = std::to_string(std::llround(rate));
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string count_text(const ProgressView& view) {
  const auto step = std::to_string(view.step);
  return view.total_steps > 0 ? fmt::format("{}/{}", step, view.total_steps) : step;
}

/// What both forms have, in the order of how much a person wants it.
std::vector<std::string> figures_of(const ProgressView& view) {
  std::vector<std::string> parts = {"loss " + text_of("%.4f", view.loss),
                                    "lr " + text_of("%.2e", view.learning_rate),
                                    rate_text(view.units_per_second) + " " + view.unit + "/s"};
  if (view.seconds_left) {
    parts.push_back(duration_text(*view.seconds_left) + " left");
  }
  return parts;
}

std::string joined(const std::string& first, const std::vector<std::string>& parts,
                   std::size_t count) {
  auto text = first;
  for (std::size_t i = 0; i < count; ++i) {
    text += " | " + parts[i];
  }
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!(seconds >= 0 && seconds < kSecondsMax)) {
    return "?";
  }
  const auto whole = std::llround(seconds);
  char text[64];
  std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

std::string bar_text(const ProgressView& view, std::size_t columns) {
  const double done =
      view.total_steps > 0
          ? std::clamp(static_cast<double>(view.step) / static_cast<double>(view.total_steps), 0.0,
                       1.0)
          : 0;
  // 100% is shown for the last step alone.
  const auto percent = text_of("%3.0f%% ", std::floor(100 * done));
  const auto parts = figures_of(view);
  auto count = parts.size();
  const auto rest = [&] { return joined(count_text(view), parts, count); };
  while (count > 0 && percent.size() + rest().size() > columns) {
    --count;
  }
  auto text = rest();
  if (view.total_steps > 0) {
    const auto room = columns - std::min(columns, percent.size() + text.size());
    const auto cells = std::min(kBarMax, room - std::min<std::size_t>(room, 3));  // "[" and "] "
    if (cells >= kBarMin) {
      const auto full = static_cast<std::size_t>(done * static_cast<double>(cells));
      text = "[" + std::string(full, '#') + std::string(cells - full, '.') + "] " + text;
    }
    text = percent + text;
  }
  return text.substr(0, columns);
}

std::string log_text(const ProgressView& view) {
  const auto parts = figures_of(view);
  return joined(fmt::format("step {} | epoch {}", count_text(view), view.epoch), parts,
                parts.size());
}

}  // namespace ddp
