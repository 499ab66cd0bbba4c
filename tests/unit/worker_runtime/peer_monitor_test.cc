#include "worker_runtime/bootstrap/peer_monitor.h"

#include <catch2/catch.hpp>
#include <future>
#include <thread>

using ddp::PeerMonitor;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

/// The two ends of a world of two, both watching.
struct Pair {
  std::unique_ptr<PeerMonitor> hub;
  std::unique_ptr<PeerMonitor> other;
};

Pair connect_pair() {
  const auto deadline = steady_clock::now() + seconds(10);
  auto hub = PeerMonitor::listen(2, 0);
  REQUIRE(hub.has_value());
  auto joining = std::async(std::launch::async, [port = (*hub)->port(), deadline] {
    return PeerMonitor::join("127.0.0.1", port, 1, 2, deadline);
  });
  REQUIRE((*hub)->gather(deadline).has_value());
  auto other = joining.get();
  REQUIRE(other.has_value());
  Pair pair{std::move(*hub), std::move(*other)};
  pair.hub->watch();
  pair.other->watch();
  return pair;
}

/// A subscriber that can be waited for.
class Heard {
 public:
  std::function<void()> subscriber() {
    return [this] { promise_.set_value(); };
  }
  bool within(milliseconds limit) { return future_.wait_for(limit) == std::future_status::ready; }

 private:
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

}  // namespace

TEST_CASE("everybody who subscribed hears of a loss", "[worker_runtime]") {
  Heard first;
  Heard second;
  Pair pair = connect_pair();
  pair.hub->subscribe(first.subscriber());
  pair.hub->subscribe(second.subscriber());
  pair.other.reset();  // without a goodbye
  CHECK(first.within(seconds(5)));
  CHECK(second.within(seconds(5)));
  const auto loss = pair.hub->loss(milliseconds(0));
  REQUIRE(loss.has_value());
  CHECK(loss->rank == 1);
}

TEST_CASE("who subscribes after a loss hears of it at once", "[worker_runtime]") {
  Heard late;
  Pair pair = connect_pair();
  pair.other->report({1, "its disk is on fire"});
  const auto loss = pair.hub->loss(seconds(5));
  REQUIRE(loss.has_value());
  CHECK(loss->reason == "its disk is on fire");
  pair.hub->subscribe(late.subscriber());
  CHECK(late.within(milliseconds(0)));
}

TEST_CASE("a rank that leaves in order is no loss", "[worker_runtime]") {
  Pair pair = connect_pair();
  auto leaving = std::async(std::launch::async, [&pair] { pair.other->leave(seconds(5)); });
  pair.hub->leave(seconds(5));
  leaving.get();
  pair.other.reset();
  const auto loss = pair.hub->loss(milliseconds(50));
  // What it says of a rank that left is for operations that still need that rank.
  CHECK((!loss || loss->reason.find("left the group in order") != std::string::npos));
}
