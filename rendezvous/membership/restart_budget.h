// RestartBudget: the one job-wide count of restarts (complaints I-9 and I-10: a counter per agent
// is neither exact nor equal on all nodes). Only worker failures spend it; lost nodes, growth and
// stops do not.
#pragma once

#include "rendezvous/base/check.h"

namespace ddprun {

class RestartBudget {
 public:
  explicit RestartBudget(int max_restarts, int used = 0) : max_(max_restarts), used_(used) {
    DDP_CHECK(max_restarts >= 0, "a budget is never negative");
    DDP_CHECK(used >= 0 && used <= max_restarts, "no more is used than there was");
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
  int used_;
};

}  // namespace ddprun
