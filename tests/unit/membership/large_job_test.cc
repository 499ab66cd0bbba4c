// What one event costs must not grow with the job: ten thousand agents that come at once would keep
// the coordinator busy for longer than their heartbeats allow.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

constexpr int kSmall = 500;
constexpr int kLarge = 16 * kSmall;

double processor_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds of one event, where so many nodes join a job that waits for one more, and are lost.
double seconds_of_an_event(int nodes) {
  Story s(fixed(nodes + 1));
  std::vector<NodeId> here;
  const double begin = processor_s();
  for (int i = 0; i < nodes; ++i) {
    here.push_back(s.join("n" + std::to_string(i)));
  }
  for (const NodeId id : here) {
    s.lose(id);
  }
  const double seconds = processor_s() - begin;
  CHECK(s.job().nodes() == 0);
  return seconds / (2 * nodes);
}

}  // namespace

TEST_CASE("A node that comes or goes costs a large job as much as a small one", "[membership]") {
  double small = std::numeric_limits<double>::max();
  double large = std::numeric_limits<double>::max();
  // The least of several: whatever else runs here only adds to it.
  for (int turn = 0; turn < 7; ++turn) {
    small = std::min(small, seconds_of_an_event(kSmall));
    large = std::min(large, seconds_of_an_event(kLarge));
  }
  INFO(1e6 * small << " us in a job of " << kSmall << ", " << 1e6 * large << " us in one of "
                   << kLarge);
  CHECK(large < 4 * small);  // what grows with the job would cost 16 times as much
}
