// Nodes that remember a job and have not said so yet hold the start back, and not for long.
#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

constexpr auto kTimeout = 2s;
constexpr NodeId kSilent{77};

MembershipOptions two_nodes() {
  MembershipOptions options = fixed(2);
  options.heartbeat_timeout = kTimeout;
  return options;
}

/// Enough nodes are here, and `kSilent` was greeted `before` they were.
struct HeldBack : Story {
  explicit HeldBack(std::chrono::nanoseconds before) : Story(two_nodes()) {
    join("n1");
    apply(NodeGreeted{kSilent});
    wait(before);
    join("n2");
  }
};

/// Not a moment before.
void check_starts_in(Story& s, std::chrono::nanoseconds time) {
  s.wait(time - 1ms);
  s.time_passed();
  CHECK(s.state() == JobState::gathering);
  s.wait(1ms);
  s.time_passed();
  CHECK(s.state() == JobState::running);
}

}  // namespace

TEST_CASE("A node that was greeted holds the start back until it is gone") {
  HeldBack s(1s);
  CHECK(s.state() == JobState::gathering);
  s.apply(NodeGreeted{kSilent, true});
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A node that is greeted and says nothing holds the start back for a heartbeat timeout") {
  HeldBack s(500ms);
  CHECK(s.job().next_deadline() == kTimeout);
  check_starts_in(s, kTimeout - 500ms);
}

TEST_CASE("Nodes that are greeted one after the other hold the start back no longer than one") {
  HeldBack s(0s);
  for (std::uint64_t next = 78; next < 81; ++next) {
    s.wait(500ms);
    s.apply(NodeGreeted{NodeId{next}});
    s.apply(NodeGreeted{NodeId{next - 1}, true});
    CHECK(s.state() == JobState::gathering);
  }
  s.wait(500ms);
  s.time_passed();
  CHECK(s.state() == JobState::running);
}

TEST_CASE("A greeted node is waited for anew once as much time has passed, or a word was kept") {
  Story later(two_nodes());
  later.join("n1");
  later.apply(NodeGreeted{kSilent});
  later.apply(NodeGreeted{kSilent, true});
  later.wait(2 * kTimeout);
  later.apply(NodeGreeted{NodeId{78}});
  later.join("n2");
  CHECK(later.state() == JobState::gathering);

  Story kept(two_nodes());
  kept.apply(NodeGreeted{kSilent});
  kept.wait(kTimeout - 1ms);
  kept.apply(NodeJoined{kSilent, kept.description("n1")});
  kept.apply(NodeGreeted{NodeId{78}});
  kept.wait(1s);
  kept.join("n2");
  CHECK(kept.state() == JobState::gathering);
}

TEST_CASE("A word that is kept leaves as much time to the other nodes that were greeted") {
  Story s(two_nodes());
  s.apply(NodeGreeted{kSilent});
  s.apply(NodeGreeted{NodeId{78}});
  s.wait(kTimeout - 1ms);
  s.apply(NodeJoined{kSilent, s.description("n1")});
  s.join("n2");
  check_starts_in(s, kTimeout);
}
