// TimerTable: the timers that workers have set against themselves, by PyTorch's file timer protocol
// (torchrun contract, section 8). Pure: lines and time come in, expired timers go out.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

/// Wall clock, as the protocol has it.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

struct TimerRequest {
  pid_t pid = 0;
  std::string scope;
  std::optional<WallTime> expires;  ///< none: the timer is released
  int signal = 0;                   ///< 0 or less: an expiry is only told
};

/// One line of the file: {"version": 1, "pid": 7, "scope_id": "step", "expiration_time": 1.7e9,
/// "signal": 9}. None when it is anything else; `why` then says what.
std::optional<TimerRequest> parse_timer_request(std::string_view line, std::string& why);

struct ExpiredTimer {
  pid_t pid = 0;
  std::string scope;
  int signal = 0;  ///< 0: none is to be sent
  std::chrono::microseconds late{};
};

class TimerTable {
 public:
  /// Timers kept at the most; a worker that makes more of them up is refused.
  static constexpr std::size_t kTimersMax = 100'000;

  /// Sets, replaces or releases the timer of (pid, scope). False when there are too many.
  bool apply(const TimerRequest& request);
  /// Takes out every timer of each process that has an expired one: the first of them with a signal
  /// speaks for it, else the first.
  std::vector<ExpiredTimer> take_expired(WallTime now);
  void clear();
  [[nodiscard]] std::optional<WallTime> next_expiry() const;
  [[nodiscard]] std::size_t size() const { return timers_.size(); }

 private:
  struct Timer {
    WallTime expires;
    int signal = 0;
  };
  using Name = std::pair<pid_t, std::string>;
  std::map<Name, Timer> timers_;
  std::set<std::pair<WallTime, Name>> by_expiry_;

  void forget(pid_t pid);
  void erase(std::map<Name, Timer>::iterator timer);
};

/// Cuts what comes through the file into lines. A piece without an end is kept up to the longest
/// line that the protocol knows (4096 bytes) and dropped beyond.
class TimerLines {
 public:
  static constexpr std::size_t kLineBytesMax = 4096;
  template <class OnLine>
  void feed(std::string_view bytes, OnLine on_line) {
    for (const char byte : bytes) {
      if (byte == '\n') {
        if (!too_long_ && !line_.empty()) {
          on_line(std::string_view(line_));
        }
        line_.clear();
        too_long_ = false;
      } else if (line_.size() < kLineBytesMax) {
        line_ += byte;
      } else {
        too_long_ = true;
      }
    }
  }

 private:
  std::string line_;
  bool too_long_ = false;
};

}  // namespace ddprun
