#include "agent/hang/progress_poller.h"

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <vector>

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("Steps alone are no news", "[agent]") {
  TrainingProgress before;
  TrainingProgress now = before;
  now.steps = 100;
  now.loss = 0.5;
  CHECK_FALSE(ProgressReport::is_news(before, now));
  SECTION("a worker that tells anything at all") {
    now.told = true;
  }
  SECTION("where it resumed") {
    now.resumed_from = SnapshotNumber::epoch(3);
  }
  SECTION("its first step") {
    now.first_step_after = 5ms;
  }
  SECTION("a snapshot") {
    now.saved = SnapshotNumber::epoch(4);
  }
  CHECK(ProgressReport::is_news(before, now));
}

TEST_CASE("Looks become rare where workers report nothing, and frequent once they do", "[agent]") {
  CHECK(ProgressReport::pause_after(50ms, false) == 100ms);
  CHECK(ProgressReport::pause_after(8s, false) == 15s);
  CHECK(ProgressReport::pause_after(15s, false) == 15s);
  CHECK(ProgressReport::pause_after(50ms, true) == 100ms);
  CHECK(ProgressReport::pause_after(15s, true) == 1s);
}

TEST_CASE("News of running workers are passed on, and nothing after the end", "[agent]") {
  boost::asio::io_context io;
  ProgressReport report(io);
  TrainingProgress page;
  std::vector<TrainingProgress> told;
  int looks = 0;
  const auto until = [&](auto condition) {
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      io.restart();
      io.run_one_for(100ms);
    }
    REQUIRE(condition());
  };
  report.begin(
      [&] {
        ++looks;
        return page;
      },
      [&](const TrainingProgress& news) { told.push_back(news); });
  until([&] { return looks >= 2; });
  CHECK(told.empty());
  page.told = true;
  page.saved = SnapshotNumber::step(1);
  until([&] { return told.size() == 1; });
  CHECK(told[0].saved == SnapshotNumber::step(1));
  page.saved = SnapshotNumber::step(2);
  until([&] { return told.size() == 2; });
  report.end();
  page.saved = SnapshotNumber::step(3);
  const int before = looks;
  io.restart();
  io.run();  // nothing is left to wait for
  CHECK(looks == before);
}
