// Drain: the end of a coordinator. It may go once every agent has read the summary and closed, or
// after a short grace. Its owner has the timer. Internal to control.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace ddprun {

/// How long agents may take to close after they were sent the summary.
inline constexpr std::chrono::seconds kDrainGrace{2};

using OnDrained = std::function<void()>;

class Drain {
 public:
  /// The job is over.
  void begin() { begun_ = true; }
  [[nodiscard]] bool begun() const { return begun_; }
  /// kDrainGrace has passed since begin().
  void grace_is_over() { grace_is_over_ = true; }
  /// `empty`: every agent has closed.
  [[nodiscard]] bool is_over(bool empty) const { return begun_ && (empty || grace_is_over_); }

  void call_when_over(OnDrained callback) { callback_ = std::move(callback); }
  /// What is to be called now, once; else nothing.
  [[nodiscard]] OnDrained take(bool empty) {
    return is_over(empty) ? std::exchange(callback_, nullptr) : nullptr;
  }

 private:
  bool begun_ = false;
  bool grace_is_over_ = false;
  OnDrained callback_;
};

}  // namespace ddprun
