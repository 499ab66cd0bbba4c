#include "rendezvous/node/told_recently.h"

#include <chrono>
#include <cstddef>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

constexpr std::chrono::minutes kTellAgain{1};
/// Few things are wrong at a time; these are many.
constexpr std::size_t kToldMax = 8;

}  // namespace

/// Forgetting all of them, where there are many, costs a line too many.
bool ToldRecently::tells(Instant now, const std::string& what) {
  const auto told = told_.find(what);
  if (told != told_.end() && now - told->second < kTellAgain) {
    return false;
  }
  if (told == told_.end() && told_.size() >= kToldMax) {
    told_.clear();
  }
  told_[what] = now;
  DDP_CHECK(told_.size() <= kToldMax, "the list is bounded");
  return true;
}

}  // namespace ddprun
