#include "trainer/validation_patience.h"

#include "ddp/tensor.h"

namespace ddp {
namespace {

/// Clouds give 30 s, schedulers as much or more: the save and the end have most of it.
constexpr std::chrono::seconds kPatience{3};

}  // namespace

/// Counted from when this rank saw the order, which is at the latest a batch after it came.
bool ValidationPatience::over() {
  if (!over_ && preemption_->asked()) {
    const auto now = std::chrono::steady_clock::now();
    asked_at_ = asked_at_.value_or(now);
    over_ = now - *asked_at_ >= kPatience;
  }
  return over_;
}

/// Ranks see the order at different times, and one that was not told goes on to its end: the others
/// wait for it here. What they have together is the answer of all.
bool ValidationPatience::over_anywhere() const {
  const auto given_up = Tensor::from<double>({over_ ? 1.0 : 0.0});
  context_->group().all_reduce(given_up);
  return given_up.item<double>() > 0;
}

}  // namespace ddp
