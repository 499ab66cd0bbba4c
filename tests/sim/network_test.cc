#include "tests/sim/network.h"

#include <catch2/catch.hpp>
#include <set>

using namespace ddprun;
using namespace ddprun::sim;

namespace {

/// Two machines that note what they read.
struct Ends : NetworkEnds {
  [[nodiscard]] bool powered(int machine) const override { return !dark.contains(machine); }
  [[nodiscard]] bool awake(int) const override { return true; }
  [[nodiscard]] bool reads(int machine) const override { return !stopped.contains(machine); }
  void deliver(ConnectionId, Side, const Message& delivered) override {
    if (const auto* said = std::get_if<Said>(&delivered)) {
      read.push_back(std::get<message::Beat>(**said).stamp);
    } else if (const auto* closed = std::get_if<Closed>(&delivered)) {
      read.push_back(closed->reset ? -2 : -1);
    }
  }
  std::set<int> dark;
  std::set<int> stopped;
  std::vector<std::int64_t> read;
};

struct Pair {
  Pair() {
    options.agents = 2;
    id = network.connect(0, 1);
  }
  void run_until(Duration time) {
    while (!timeline.empty() && timeline.next() <= time) {
      timeline.step();
    }
  }
  void say(std::int64_t number) { network.send(id, Side::client, message::Beat{{}, number}); }

  SimOptions options;
  Timeline timeline;
  Ends ends;
  Network network{timeline, options, ends};
  ConnectionId id{};
};

}  // namespace

TEST_CASE("A connection delivers in order, and its end last") {
  Pair pair;
  for (int i = 0; i < 20; ++i) {
    pair.say(i);
  }
  pair.network.close(pair.id, Side::client);
  pair.run_until(seconds(1));
  REQUIRE(pair.ends.read.size() == 21);
  for (int i = 0; i < 20; ++i) {
    CHECK(pair.ends.read[static_cast<std::size_t>(i)] == i);
  }
  CHECK(pair.ends.read.back() == -1);
}

TEST_CASE("What a cut holds up comes after it, and a one-way cut holds up one way") {
  Pair pair;
  pair.network.cut({Duration(0), FaultKind::silent_cut, 0, 1, seconds(2)});
  CHECK_FALSE(pair.network.passes(0, 1));
  CHECK(pair.network.passes(1, 0));
  pair.say(7);
  pair.run_until(seconds(1));
  CHECK(pair.ends.read.empty());
  pair.run_until(seconds(3));
  CHECK(pair.ends.read == std::vector<std::int64_t>{7});
}

TEST_CASE("A closed end answers with a reset, and so may lose its last words") {
  Pair pair;
  pair.network.cut({Duration(0), FaultKind::cut, 0, 1, seconds(1)});
  pair.network.send(pair.id, Side::server, message::Beat{{}, 1});
  pair.say(7);
  pair.network.close(pair.id, Side::client);
  pair.run_until(seconds(3));
  CHECK((pair.ends.read == std::vector<std::int64_t>{-2} ||
         pair.ends.read == std::vector<std::int64_t>{7, -1}));
}

TEST_CASE("A process that is stopped reads when it goes on") {
  Pair pair;
  pair.ends.stopped.insert(1);
  pair.say(7);
  pair.run_until(seconds(1));
  CHECK(pair.ends.read.empty());
  pair.ends.stopped.clear();
  pair.network.wake(1);
  CHECK(pair.ends.read == std::vector<std::int64_t>{7});
}
