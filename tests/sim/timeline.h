// Timeline: what is still to happen, by (time, order of asking).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tests/sim/quad_heap.h"
#include "tests/sim/random.h"

namespace ddprun::sim {

/// What an action is, for whoever chooses between several (exploration.h).
struct ActionTag {
  enum class Kind : std::uint8_t { other, timer, delivery, call };
  Kind kind = Kind::other;
  int machine = -1;          ///< at which it happens
  std::uint32_t detail = 0;  ///< of a delivery: the connection; of a call: who calls
};

class Timeline {
 public:
  struct Pending {
    Duration time;
    std::uint64_t sequence;  ///< names it
    ActionTag tag;
  };

  [[nodiscard]] Duration now() const { return now_; }
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] Duration next() const { return heap_.front().time; }

  /// At `time`, or now if that is over.
  void at(Duration time, std::function<void()> run, ActionTag tag = {}) {
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(actions_.size());
      actions_.push_back({std::move(run), tag});
    } else {
      slot = free_.back();
      free_.pop_back();
      actions_[slot] = {std::move(run), tag};
    }
    heap_.push({std::max(time, now_), sequence_++, slot});
  }

  /// Lets the next action happen.
  void step() { run(heap_.pop()); }

  /// All that is still to happen, in no order.
  [[nodiscard]] std::vector<Pending> pending() const {
    std::vector<Pending> all;
    all.reserve(heap_.items().size());
    for (const Due& due : heap_.items()) {
      all.push_back({due.time, due.sequence, actions_[due.slot].tag});
    }
    return all;
  }

  /// All that is due first, in the order of asking.
  [[nodiscard]] std::vector<Pending> due_next() const {
    std::vector<Pending> all;
    for (const Due& due : heap_.items()) {
      if (due.time == next()) {
        all.push_back({due.time, due.sequence, actions_[due.slot].tag});
      }
    }
    std::sort(all.begin(), all.end(),
              [](const Pending& a, const Pending& b) { return a.sequence < b.sequence; });
    return all;
  }

  /// Lets this action happen before all others. Those that are due earlier come later than that.
  void step(std::uint64_t sequence) {
    if (heap_.front().sequence == sequence) {
      step();
    } else {
      run(take(sequence));
    }
  }

  /// This action never happens.
  void drop(std::uint64_t sequence) { release(take(sequence).slot); }

 private:
  /// What is sorted is small; what is done stays where it is.
  struct Due {
    Duration time;
    std::uint64_t sequence;
    std::uint32_t slot;  ///< of actions_
  };
  struct Before {
    bool operator()(const Due& a, const Due& b) const {
      return a.time != b.time ? a.time < b.time : a.sequence < b.sequence;
    }
  };
  struct Action {
    std::function<void()> run;
    ActionTag tag;
  };

  /// It may ask for more.
  void run(const Due& due) {
    now_ = std::max(now_, due.time);
    const std::function<void()> action = release(due.slot);
    action();
  }
  std::function<void()> release(std::uint32_t slot) {
    free_.push_back(slot);
    return std::exchange(actions_[slot].run, nullptr);
  }
  Due take(std::uint64_t sequence) {
    return heap_.take([sequence](const Due& due) { return due.sequence == sequence; });
  }

  Duration now_{};
  std::uint64_t sequence_ = 0;
  QuadHeap<Due, Before> heap_;
  std::vector<Action> actions_;
  std::vector<std::uint32_t> free_;  ///< slots
};

}  // namespace ddprun::sim
