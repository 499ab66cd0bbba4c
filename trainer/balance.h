// Balance: how many samples of each step a rank takes, so that no rank waits long for a slower one.
// The shares follow weights that a user gives, or the speed that was measured; all ranks have the
// same ones. Which samples a step has, and the mean of their gradients, does not depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ddp/process_group.h"

namespace ddp {

/// What a user wants; nothing: equal shares.
struct BalanceChoice {
  bool automatic = false;       ///< by speed
  std::vector<double> weights;  ///< one for each rank
  [[nodiscard]] bool wanted() const { return automatic || !weights.empty(); }
};

class Balance {
 public:
  /// Of steps of so many samples of all ranks, at least one for each. The group must outlive it.
  /// Throws DoNotRetry when there are weights for another number of ranks.
  Balance(ProcessGroup& group, BalanceChoice choice, std::size_t samples);

  /// For DistributedSampler::share_out(); none: equal parts, in the sampler's own order.
  [[nodiscard]] const std::vector<std::size_t>& shares() const { return shares_; }
  /// What a snapshot keeps: empty without a choice.
  [[nodiscard]] std::string text() const;
  /// Goes on with what text() of an earlier run said, where it fits this world.
  void restore(const std::string& text);

  /// A step took this rank so long, without its waiting for others. True when enough is measured
  /// for a first agreement: on all ranks after the same step.
  bool step_done(std::size_t samples, double seconds);
  /// Where speed counts, divides anew by what was measured since the last time, and begins to
  /// measure anew. True when a share has changed. Collective, and nothing else is without a choice.
  bool agree();
  /// Whether they have changed since this was asked last.
  bool take_change();

 private:
  ProcessGroup* group_;
  BalanceChoice choice_;
  std::size_t samples_;
  std::vector<std::size_t> shares_;
  bool changed_ = false;
  bool measured_before_ = false;  ///< shares follow a measurement
  std::int64_t steps_ = 0;        ///< of this process
  double measured_samples_ = 0;
  double measured_s_ = 0;
};

}  // namespace ddp
