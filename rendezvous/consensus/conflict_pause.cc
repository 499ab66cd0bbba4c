#include "rendezvous/consensus/conflict_pause.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
/// Doublings until the bound is surely reached.
constexpr int kDoublingsMax = 4;

}  // namespace

/// Between a half and the whole of the pause: less would press the server after all.
std::chrono::milliseconds ConflictPause::next() {
  if (conflicts_ == 0) {
    conflicts_ = 1;
    return {};
  }
  const int doublings = std::min(conflicts_ - 1, kDoublingsMax);
  conflicts_ = std::min(conflicts_ + 1, kDoublingsMax + 2);
  const auto whole = std::min(kFirstPause * (1 << doublings), kConflictPauseMax);
  std::uniform_int_distribution<std::int64_t> from_half(whole.count() / 2 + 1, whole.count());
  const std::chrono::milliseconds pause(from_half(random_));
  DDP_CHECK(pause.count() > 0 && pause <= kConflictPauseMax, "a pause is bounded");
  return pause;
}

}  // namespace ddprun
