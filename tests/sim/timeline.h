// Timeline: what is still to happen, by (time, order of asking).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/sim/random.h"

namespace ddprun::sim {

class Timeline {
 public:
  [[nodiscard]] Duration now() const { return now_; }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Duration next() const { return heap_.front().time; }

  /// At `time`, or now if that is over.
  void at(Duration time, std::function<void()> run) {
    heap_.push_back({std::max(time, now_), sequence_++, std::move(run)});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  /// Lets the next action happen.
  void step() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Action action = std::move(heap_.back());
    heap_.pop_back();
    now_ = action.time;
    action.run();
  }

 private:
  struct Action {
    Duration time;
    std::uint64_t sequence;
    std::function<void()> run;
  };
  static bool later(const Action& a, const Action& b) {
    return std::tie(a.time, a.sequence) > std::tie(b.time, b.sequence);
  }

  Duration now_{};
  std::uint64_t sequence_ = 0;
  std::vector<Action> heap_;
};

}  // namespace ddprun::sim
