// RestartBudget: the one job-wide count of restarts (complaints I-9 and I-10: a counter per agent
// is neither exact nor equal on all nodes). Only worker failures spend it; lost nodes, growth and
// stops do not.
#pragma once

#include "rendezvous/base/check.h"

namespace ddprun {

class RestartBudget {
 public:
  explicit RestartBudget(int max_restarts) : max_(max_restarts) {
    DDP_CHECK(max_restarts >= 0, "a budget is never negative");
  }

  /// Takes one restart. False when none is left; nothing is taken then.
  [[nodiscard]] bool spend() {
    DDP_CHECK(used_ >= 0 && used_ <= max_, "restarts used are between 0 and the maximum");
    if (used_ == max_) {
      return false;
    }
    ++used_;
    return true;
  }

  [[nodiscard]] int used() const { return used_; }
  [[nodiscard]] int max() const { return max_; }

 private:
  int max_;
  int used_ = 0;
};

}  // namespace ddprun
