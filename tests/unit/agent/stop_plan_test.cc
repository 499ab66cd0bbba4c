#include <catch2/catch.hpp>
#include <csignal>

#include "agent/process/stop_plan.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

StopContext context(bool obeys, bool catches, bool catches_term) {
  return {obeys, catches, catches_term, 30s, 600s};
}

}  // namespace

TEST_CASE("workers that obey are ordered to save, and have the long grace for it") {
  for (const StopHow how : {StopHow::save, StopHow::preempt}) {
    const StopPlan plan = plan_stop(how, SIGUSR1, context(true, false, true));
    CHECK(plan.order_save);
    CHECK(plan.signal == SIGTERM);
    CHECK(plan.grace == 600s);
  }
  CHECK_FALSE(plan_stop(StopHow::now, 0, context(true, false, true)).order_save);
}

TEST_CASE("workers whose training is over do not keep an order from one that still saves") {
  using enum Obedience;
  CHECK(all_obey({}));
  CHECK(all_obey({obeys, obeys}));
  CHECK(all_obey({obeys, past}));
  CHECK_FALSE(all_obey({past, past}));  // their training is over: no order reaches them
  CHECK_FALSE(all_obey({obeys, never}));
  CHECK_FALSE(all_obey({never}));
}

TEST_CASE("a restart is quick, whatever the workers handle") {
  for (const StopHow how : {StopHow::now, StopHow::save}) {
    const StopPlan plan = plan_stop(how, 0, context(false, true, true));
    CHECK_FALSE(plan.order_save);
    CHECK(plan.signal == SIGTERM);
    CHECK(plan.grace == 30s);
  }
}

TEST_CASE("scripts get the signal that they handle, and the long grace only when they handle one") {
  const StopPlan handled = plan_stop(StopHow::preempt, SIGUSR1, context(false, true, false));
  CHECK(handled.signal == SIGUSR1);
  CHECK(handled.grace == 600s);
  const StopPlan otherwise = plan_stop(StopHow::preempt, SIGUSR1, context(false, false, true));
  CHECK(otherwise.signal == SIGTERM);
  CHECK(otherwise.grace == 600s);
  const StopPlan none = plan_stop(StopHow::preempt, SIGUSR1, context(false, false, false));
  CHECK(none.signal == SIGTERM);
  CHECK(none.grace == 30s);
  CHECK(plan_stop(StopHow::preempt, 0, context(false, false, true)).signal == SIGTERM);
}

TEST_CASE("how workers ended: complete by themselves, in order as they were stopped, or not so") {
  const auto worker = [](int code, bool after_stop) {
    return group::Worker{false, {ExitStatus::Kind::exited, code}, after_stop};
  };
  const auto ending = [](const std::vector<group::Worker>& workers, bool left = false) {
    TrainingProgress told;
    told.left = left;
    told = with_ending(told, workers);
    return std::pair(told.complete, told.left);
  };
  CHECK(ending({worker(0, false), worker(0, false)}) == std::pair(true, false));
  CHECK(ending({worker(0, false), worker(0, true)}) == std::pair(false, true));
  CHECK(ending({worker(75, true), worker(0, true)}) == std::pair(false, true));
  CHECK(ending({worker(1, true), worker(0, true)}) == std::pair(false, false));
  CHECK(ending({worker(0, false)}, true) == std::pair(false, true));  // the runtime said so
}
