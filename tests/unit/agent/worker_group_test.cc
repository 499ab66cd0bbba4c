#include "agent/process/worker_group.h"

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

using namespace ddprun;
using namespace ddprun::group;
using namespace std::chrono_literals;

namespace {

constexpr ExitStatus kOk{ExitStatus::Kind::exited, 0};
constexpr ExitStatus kFailed{ExitStatus::Kind::exited, 3};
constexpr ExitStatus kTerminated{ExitStatus::Kind::signalled, SIGTERM};

/// "end", or with a grace that is not the usual one "end/50".
std::string armed_for(const ArmDeadline& armed) {
  constexpr std::array<const char*, 4> kNames{"save", "end", "fence", "death"};
  return kNames.at(static_cast<std::size_t>(armed.what)) +
         (armed.grace ? "/" + std::to_string(armed.grace->count()) : "");
}

/// The commands as one line, so that a test reads like a story.
std::string text(const std::vector<Command>& commands) {
  std::string line;
  const auto add = [&](const std::string& word) { line += (line.empty() ? "" : " ") + word; };
  for (const auto& command : commands) {
    if (std::holds_alternative<ReportStarted>(command))
      add("report-started");
    if (const auto* f = std::get_if<ReportFailure>(&command)) {
      add("report-failure:" + std::to_string(f->local_rank));
    }
    if (const auto* s = std::get_if<SignalWorkers>(&command)) {
      add("signal:" + std::to_string(s->signal) + (s->fences ? "!" : ""));
    }
    if (std::holds_alternative<OrderSave>(command))
      add("order-save");
    if (const auto* armed = std::get_if<ArmDeadline>(&command)) {
      add("arm:" + armed_for(*armed));
    }
    if (std::holds_alternative<GiveUp>(command))
      add("give-up");
    if (std::holds_alternative<DisarmDeadline>(command))
      add("disarm");
    if (std::holds_alternative<ReportFinished>(command))
      add("report-finished");
    if (std::holds_alternative<KillDescendants>(command))
      add("kill-descendants");
    if (std::holds_alternative<ReportStopped>(command))
      add("report-stopped");
  }
  return line;
}

WorkerGroup running(int workers) {
  WorkerGroup group;
  REQUIRE(text(group.handle(Started{AttemptNumber{0}, workers})) == "report-started");
  return group;
}

}  // namespace

TEST_CASE("workers that all exit 0 finish the group, whatever the order") {
  auto group = running(2);
  CHECK(text(group.handle(WorkerExited{1, kOk})).empty());
  CHECK(group.state() == State::running);
  CHECK(text(group.handle(WorkerExited{0, kOk})) == "report-finished");
  CHECK(group.state() == State::finished);
}

TEST_CASE("a worker that was dead before it was signalled was not stopped") {
  auto group = running(2);
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
  CHECK(text(group.handle(WorkerExited{1, kFailed, true})).empty());
  CHECK(text(group.handle(WorkerExited{0, kTerminated})) ==
        "disarm kill-descendants report-stopped");
  CHECK_FALSE(group.workers()[1].after_stop);
  CHECK(group.workers()[0].after_stop);
}

TEST_CASE("a worker that dies of a SIGKILL that is not ours was not stopped") {
  constexpr ExitStatus kKilled{ExitStatus::Kind::signalled, SIGKILL};
  auto group = running(3);
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
  CHECK(text(group.handle(WorkerExited{1, kKilled})).empty());
  CHECK_FALSE(group.workers()[1].after_stop);
  CHECK(text(group.handle(DeadlinePassed{})) == "signal:9 arm:death/5000");
  CHECK(text(group.handle(WorkerExited{0, kKilled})).empty());
  CHECK(group.workers()[0].after_stop);
}

TEST_CASE("a failed worker is reported and its siblings are stopped without an order") {
  auto group = running(3);
  CHECK(text(group.handle(WorkerExited{1, kFailed})) == "report-failure:1 signal:15 arm:end");
  CHECK(text(group.handle(WorkerExited{0, kTerminated})).empty());
  CHECK(text(group.handle(StopOrdered{SIGTERM})).empty());
  CHECK(text(group.handle(WorkerExited{2, kTerminated})) ==
        "disarm kill-descendants report-stopped");
  CHECK_FALSE(group.workers()[1].after_stop);
  CHECK(group.workers()[0].after_stop);
  CHECK(group.workers()[2].after_stop);
}

TEST_CASE("a worker that outlives the deadline is killed") {
  auto group = running(1);
  CHECK(text(group.handle(StopOrdered{SIGINT})) == "signal:2 arm:end");
  CHECK(text(group.handle(DeadlinePassed{})) == "signal:9 arm:death/5000");
  CHECK(text(group.handle(WorkerExited{0, {ExitStatus::Kind::signalled, SIGKILL}})) ==
        "disarm kill-descendants report-stopped");
  CHECK(text(group.handle(DeadlinePassed{})).empty());
}

TEST_CASE("a finished group answers a stop at once, since other nodes may still fail") {
  auto group = running(1);
  CHECK(text(group.handle(WorkerExited{0, kOk})) == "report-finished");
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "disarm kill-descendants report-stopped");
  CHECK(group.state() == State::stopped);
}

TEST_CASE("a second request to stop kills at once") {
  auto group = running(2);
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
  CHECK(text(group.handle(KillOrdered{})) == "signal:9 arm:death/5000");
}

TEST_CASE("a kill order in each state leaves no worker unsignalled") {
  WorkerGroup idle;
  CHECK(text(idle.handle(KillOrdered{})).empty());
  auto one = running(1);
  CHECK(text(one.handle(KillOrdered{})) == "signal:9 arm:death/5000");
  CHECK(text(one.handle(WorkerExited{0, {ExitStatus::Kind::signalled, SIGKILL}})) ==
        "disarm kill-descendants report-stopped");
  CHECK(text(one.handle(KillOrdered{})).empty());
}

TEST_CASE("the next attempt starts from a stopped group with fresh workers") {
  auto group = running(2);
  (void)group.handle(WorkerExited{0, kFailed});
  (void)group.handle(WorkerExited{1, kTerminated});
  REQUIRE(group.state() == State::stopped);
  CHECK(text(group.handle(Started{AttemptNumber{1}, 2})) == "report-started");
  CHECK(group.running_workers() == 2);
  CHECK(number(group.attempt()) == 1);
}

TEST_CASE("what SIGKILL does not end is given up: nothing is reported of it, and all is over") {
  auto group = running(2);
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
  CHECK(text(group.handle(WorkerExited{0, kTerminated})).empty());
  CHECK(text(group.handle(DeadlinePassed{})) == "signal:9 arm:death/5000");
  CHECK(text(group.handle(DeadlinePassed{})) == "give-up");
  CHECK(group.state() == State::stopped);
  CHECK(group.running_workers() == 0);
  CHECK(text(group.handle(StopOrdered{SIGTERM})).empty());
  CHECK(text(group.handle(KillOrdered{})).empty());
  CHECK(text(group.handle(WorkerExited{1, kTerminated})).empty());
}

TEST_CASE("workers that were ordered to save and all leave with 0 were stopped, not finished") {
  auto group = running(2);
  CHECK(text(group.handle(SaveOrdered{60s})) == "order-save arm:save/60000");
  CHECK(group.is_working());
  CHECK(text(group.handle(WorkerExited{0, kOk})).empty());
  CHECK(text(group.handle(WorkerExited{1, kOk})) == "disarm kill-descendants report-stopped");
  CHECK_FALSE(group.workers()[0].after_stop);
}

TEST_CASE("workers that do not save in time are signalled, and have the usual grace from there") {
  auto group = running(2);
  CHECK(text(group.handle(SaveOrdered{60s})) == "order-save arm:save/60000");
  CHECK(text(group.handle(DeadlinePassed{})) == "signal:15 arm:end");
  CHECK_FALSE(group.is_working());
  CHECK(text(group.handle(DeadlinePassed{})) == "signal:9 arm:death/5000");
}

TEST_CASE("a worker that fails while others save is reported, and ends them") {
  auto group = running(2);
  CHECK(text(group.handle(SaveOrdered{60s})) == "order-save arm:save/60000");
  CHECK(text(group.handle(WorkerExited{1, kFailed})) == "report-failure:1 signal:15 arm:end");
}

TEST_CASE("an order to save replaces the one before, and does not lengthen a stop") {
  auto group = running(1);
  CHECK(text(group.handle(SaveOrdered{5s})) == "order-save arm:save/5000");
  CHECK(text(group.handle(SaveOrdered{60s})) == "order-save arm:save/60000");
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
  CHECK(text(group.handle(SaveOrdered{60s})) == "order-save");
}

TEST_CASE("an order to save that comes when no worker runs reports what there is") {
  auto group = running(1);
  CHECK(text(group.handle(WorkerExited{0, kOk})) == "report-finished");
  CHECK(text(group.handle(SaveOrdered{60s})) == "disarm kill-descendants report-stopped");
  CHECK(text(group.handle(SaveOrdered{60s})).empty());
}

TEST_CASE("a stop has the grace that it was ordered with, and the next one the usual grace") {
  auto group = running(1);
  CHECK(text(group.handle(StopOrdered{SIGTERM, 50ms})) == "signal:15 arm:end/50");
  CHECK(text(group.handle(StopOrdered{SIGTERM, 90ms})).empty());
  (void)group.handle(WorkerExited{0, kTerminated});
  REQUIRE(text(group.handle(Started{AttemptNumber{1}, 1})) == "report-started");
  CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
}

TEST_CASE("a fence shortens whatever grace the workers have, but for those being killed") {
  auto working = running(1);
  CHECK(text(working.handle(FenceOrdered{150ms})) == "signal:15! arm:fence/150");
  auto saving = running(1);
  (void)saving.handle(SaveOrdered{60s});
  CHECK(text(saving.handle(FenceOrdered{150ms})) == "signal:15! arm:fence/150");
  auto stopping = running(1);
  (void)stopping.handle(StopOrdered{SIGTERM});
  CHECK(text(stopping.handle(FenceOrdered{150ms})) == "arm:fence/150");
  CHECK(text(stopping.handle(DeadlinePassed{})) == "signal:9 arm:death/5000");
  CHECK(text(stopping.handle(FenceOrdered{150ms})).empty());
  WorkerGroup idle;
  CHECK(text(idle.handle(FenceOrdered{150ms})).empty());
}

TEST_CASE("a fence of workers that have finished reports them as stopped") {
  auto group = running(1);
  (void)group.handle(WorkerExited{0, kOk});
  CHECK(text(group.handle(FenceOrdered{150ms})) == "disarm kill-descendants report-stopped");
}

TEST_CASE("a preemption gives workers that stop for less the long grace, unless one has failed") {
  auto group = running(2);
  const StopOrdered preempts{SIGTERM, 60s, true};
  SECTION("all may save") {
    CHECK(text(group.handle(StopOrdered{SIGTERM})) == "signal:15 arm:end");
    (void)group.handle(WorkerExited{0, kTerminated});
    CHECK(text(group.handle(preempts)) == "arm:end/60000");
    CHECK(text(group.handle(DeadlinePassed{})) == "signal:9 arm:death/5000");
    CHECK(text(group.handle(preempts)).empty());
  }
  SECTION("one failed") {
    (void)group.handle(WorkerExited{0, kTerminated});
    CHECK(text(group.handle(preempts)).empty());
  }
}
