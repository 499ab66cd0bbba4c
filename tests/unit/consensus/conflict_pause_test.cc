#include "rendezvous/consensus/conflict_pause.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

std::vector<std::chrono::milliseconds> pauses_of(ConflictPause& pause, int count) {
  std::vector<std::chrono::milliseconds> pauses;
  for (int conflict = 0; conflict < count; ++conflict) {
    pauses.push_back(pause.next());
  }
  return pauses;
}

}  // namespace

TEST_CASE("After one conflict nobody waits, and after more the pause doubles up to a bound") {
  ConflictPause pause(7);
  const auto pauses = pauses_of(pause, 100);
  CHECK(pauses[0] == 0ms);
  auto whole = 100ms;
  for (std::size_t at = 1; at < pauses.size(); ++at) {
    CAPTURE(at);
    CHECK(pauses[at] > whole / 2);
    CHECK(pauses[at] <= whole);
    whole = std::min<std::chrono::milliseconds>(2 * whole, kConflictPauseMax);
  }
  pause.reset();
  CHECK(pause.next() == 0ms);
}

TEST_CASE("Two processes do not wait equally long") {
  ConflictPause one(1);
  ConflictPause other(2);
  CHECK(pauses_of(one, 8) != pauses_of(other, 8));
}
