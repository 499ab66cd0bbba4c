// Drain: the end of a coordinator. It may go once every agent has read the summary and closed, or
// after a short grace, and a consensus service, which has an own grace, was left. Its owner has the
// timer. Internal to control.
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
  /// `empty`: every agent has closed. `service_left`: there is none, or it needs no more time.
  [[nodiscard]] bool is_over(bool empty, bool service_left) const {
    return begun_ && service_left && (empty || grace_is_over_);
  }

  void call_when_over(OnDrained callback) { callback_ = std::move(callback); }
  /// What is to be called now, once; else nothing.
  [[nodiscard]] OnDrained take(bool empty, bool service_left) {
    return is_over(empty, service_left) ? std::exchange(callback_, nullptr) : nullptr;
  }

 private:
  bool begun_ = false;
  bool grace_is_over_ = false;
  OnDrained callback_;
};

}  // namespace ddprun
