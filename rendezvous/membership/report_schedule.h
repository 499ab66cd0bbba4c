// ReportSchedule: when people who wait are told how it stands. Pure; for everything that waits.
//
// First after a moment, so that what goes through at once says nothing; then at doubled intervals.
// A change is told sooner, but not before it has settled (nodes come in swarms), and not within a
// pause after the last report that doubles too: a thousand nodes that trickle in are a handful of
// tables.
#pragma once

#include <algorithm>
#include <chrono>

namespace ddprun {

inline constexpr std::chrono::milliseconds kReportFirst{2'000};
inline constexpr std::chrono::seconds kReportIntervalMin{4};
inline constexpr std::chrono::seconds kReportIntervalMax{60};
inline constexpr std::chrono::milliseconds kReportSettle{500};
inline constexpr std::chrono::seconds kReportPauseMin{1};
inline constexpr std::chrono::seconds kReportPauseMax{16};

class ReportSchedule {
 public:
  /// Time on any steady clock, from any fixed point.
  using Time = std::chrono::nanoseconds;

  void begin(Time now, Time first = kReportFirst) {
    next_ = change_ = now + first;
    interval_ = kReportIntervalMin;
    pause_ = kReportPauseMin;
  }
  void changed(Time now) { next_ = std::min(next_, std::max<Time>(now + kReportSettle, change_)); }
  /// True when a report is due; it is then not due again for a while.
  bool due(Time now) {
    if (now < next_) {
      return false;
    }
    next_ = now + interval_;
    change_ = now + pause_;
    interval_ = std::min<Time>(2 * interval_, kReportIntervalMax);
    pause_ = std::min<Time>(2 * pause_, kReportPauseMax);
    return true;
  }
  /// When due() may become true.
  [[nodiscard]] Time next() const { return next_; }

 private:
  Time next_{};
  Time change_{};  ///< a change is not told before
  Time interval_{};
  Time pause_{};
};

}  // namespace ddprun
