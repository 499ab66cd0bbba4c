// ValidationPatience: for how long a rank goes on with a validation once it was asked to leave. A
// short one is done to its end, and the job has its result. A long one is given up: until its end
// nothing of what the order wants would happen, and whoever gave it may not wait so long.
#pragma once

#include <chrono>
#include <optional>

#include "ddp/ddp.h"
#include "ddp/preemption.h"

namespace ddp {

/// Of one validation, made at its begin. Both outlive it.
class ValidationPatience {
 public:
  ValidationPatience(const Context& context, const Preemption& preemption)
      : context_(&context), preemption_(&preemption) {}

  /// Looked at before each batch: true once this rank gives the validation up.
  [[nodiscard]] bool over();
  /// Behind the last batch: whether any rank has given up, so that there is no result. Collective.
  [[nodiscard]] bool over_anywhere() const;

 private:
  const Context* context_;
  const Preemption* preemption_;
  std::optional<std::chrono::steady_clock::time_point> asked_at_;
  bool over_ = false;
};

}  // namespace ddp
