#include "rendezvous/consensus/conflict_pause.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
/// Doublings until the bound is surely reached.
constexpr int kDoublingsMax = 4;

/// SplitMix64: any number that was drawn is a good beginning.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
  return mixed ^ (mixed >> 31);
}

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
  const auto half = static_cast<std::uint64_t>(whole.count() / 2);
  const auto pause =
      whole - std::chrono::milliseconds(static_cast<std::int64_t>(next_random(random_) % half));
  DDP_CHECK(pause.count() > 0 && pause <= kConflictPauseMax, "a pause is bounded");
  return pause;
}

}  // namespace ddprun
