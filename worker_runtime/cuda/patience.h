// Patience: a wait for what sends no event, neither CUDA nor NCCL: first by spinning, then by short
// pauses, up to a deadline.
#pragma once

#include <chrono>
#include <thread>

namespace ddp {

class Patience {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit Patience(Deadline deadline) : deadline_(deadline) {}
  explicit Patience(std::chrono::milliseconds limit)
      : Patience(std::chrono::steady_clock::now() + limit) {}

  /// Between two looks. False when the time is over.
  bool pause() {
    if (++looks_ > kEagerLooks) {
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // allowed: CUDA has no event fd
    }
    return std::chrono::steady_clock::now() < deadline_;
  }

 private:
  /// Small operations end within microseconds.
  static constexpr int kEagerLooks = 2'000;
  Deadline deadline_;
  int looks_ = 0;
};

}  // namespace ddp
