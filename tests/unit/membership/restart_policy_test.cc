#include "rendezvous/membership/restart_policy.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

Incident caused_by(FailureRecord record) {
  Incident incident;
  record.blame = Blame::cause;
  incident.records.push_back(std::move(record));
  return incident;
}

Incident lost_node() {
  Incident incident;
  incident.node_lost = true;
  return incident;
}

FaultRule rule(FaultClass kind, FaultAction action, int value = 0) {
  return {kind, value, action, "rule"};
}

AttemptStory told(std::int64_t steps, std::optional<std::int64_t> epoch = {}) {
  AttemptStory story{true, steps > 0, steps, {}};
  if (epoch) {
    story.saved = SnapshotNumber::epoch(*epoch);
  }
  return story;
}

}  // namespace

TEST_CASE("A failed worker spends the budget, a lost node does not") {
  RestartPolicy policy({.max_restarts = 1});
  CHECK_FALSE(policy.decide(lost_node(), false, {}, 1s).spent);
  const auto first = policy.decide(caused_by(killed(0)), true, {}, 2s);
  CHECK(first.spent);
  CHECK_FALSE(first.end);
  const auto second = policy.decide(caused_by(killed(0)), true, {}, 3s);
  CHECK_FALSE(second.spent);
  CHECK(second.end == "the only restart is spent");
}

TEST_CASE("Restarts of a window come back when it has passed") {
  RestartPolicy policy({.max_restarts = 100, .window = RestartWindow{2, 60s}});
  const auto fails_at = [&](Instant at) {
    return policy.decide(caused_by(killed(0)), true, {}, at).end;
  };
  CHECK_FALSE(fails_at(0s));
  CHECK_FALSE(fails_at(30s));
  CHECK_FALSE(fails_at(61s));  // the first is out of it
  CHECK(fails_at(80s) == "2 restarts within 60 s are spent (--restart-window)");
}

TEST_CASE("The only restart of a window is one") {
  RestartPolicy policy({.max_restarts = 100, .window = RestartWindow{1, 3600s}});
  CHECK_FALSE(policy.decide(caused_by(killed(0)), true, {}, 0s).end);
  CHECK(policy.decide(caused_by(killed(0)), true, {}, 1s).end ==
        "1 restart within 3600 s is spent (--restart-window)");
}

TEST_CASE("The most special class of the table decides") {
  RestartPolicy policy({.max_restarts = 1,
                        .on_fault = {rule(FaultClass::any_exit, FaultAction::free),
                                     rule(FaultClass::exit_code, FaultAction::fail, 7),
                                     rule(FaultClass::signal, FaultAction::free, 9),
                                     rule(FaultClass::oom, FaultAction::fail),
                                     rule(FaultClass::node_lost, FaultAction::restart)}});
  for (int i = 0; i < 5; ++i) {
    CHECK_FALSE(policy.decide(caused_by(exited(0, 3)), true, {}, 1s).spent);
    CHECK_FALSE(policy.decide(caused_by(killed(0)), true, {}, 1s).end);
  }
  CHECK(policy.decide(caused_by(exited(0, 7)), true, {}, 1s).end ==
        "that ends the job (--on rule)");
  FailureRecord oom = killed(0);
  oom.out_of_memory = true;
  CHECK(policy.decide(caused_by(oom), true, {}, 1s).end);
  CHECK(policy.decide(lost_node(), false, {}, 1s).spent);
  CHECK(policy.decide(lost_node(), false, {}, 1s).end);  // that was the only one
}

TEST_CASE("How a hung worker was ended puts it into no class but its own") {
  RestartPolicy policy({.max_restarts = 2,
                        .on_fault = {rule(FaultClass::signal, FaultAction::fail, 9),
                                     rule(FaultClass::any_signal, FaultAction::fail)}});
  FailureRecord record = killed(0);
  record.hung = true;
  CHECK(policy.decide(caused_by(record), true, {}, 1s).spent);
  RestartPolicy strict({.max_restarts = 2,
                        .on_fault = {rule(FaultClass::oom, FaultAction::free),
                                     rule(FaultClass::hang, FaultAction::fail)}});
  CHECK(strict.decide(caused_by(record), true, {}, 1s).end == "that ends the job (--on rule)");
}

TEST_CASE("A worker that asks not to be started again ends the job, and spends nothing") {
  RestartPolicy policy({.max_restarts = 5});
  FailureRecord record = exited(0, 1);
  record.do_not_retry = true;
  const auto decision = policy.decide(caused_by(record), true, {}, 1s);
  CHECK(decision.end == "the worker asked not to be started again");
  CHECK_FALSE(decision.spent);
}

TEST_CASE("Attempts that end before their first step are followed by longer and longer pauses") {
  RestartPolicy policy({.max_restarts = 100, .no_progress_max = 0});
  const auto pause = [&](const AttemptStory& story) {
    return policy.decide(caused_by(killed(0)), true, story, 1s).pause;
  };
  CHECK(pause(told(0)) == 0s);
  CHECK(pause(told(0)) == 1s);
  CHECK(pause(told(0)) == 2s);
  CHECK(pause(told(0)) == 4s);
  for (int i = 0; i < 10; ++i) {
    (void)pause(told(0));
  }
  CHECK(pause(told(0)) == 60s);
  CHECK(pause(told(5)) == 0s);
  CHECK(pause(told(0)) == 0s);
  CHECK(pause({}) == 0s);  // of workers that tell nothing, nobody knows
}

TEST_CASE("A program that fails at its start is not started again without a pause for ever") {
  RestartRules rules;
  rules.on_fault = {{FaultClass::any_signal, 0, FaultAction::free, "signal=free"}};
  RestartPolicy policy(rules);
  Instant now = 1s;
  const auto pause_after = [&](Instant lived) {
    now += lived;
    const auto decision = policy.decide(caused_by(killed(0)), true, {}, now);
    CHECK_FALSE(decision.end);
    now += decision.pause;
    return decision.pause;
  };
  CHECK(pause_after(1h) == 0s);
  CHECK(pause_after(5ms) == 1s);
  CHECK(pause_after(5ms) == 2s);
  CHECK(pause_after(9s) == 4s);
  CHECK(pause_after(11s) == 0s);
  CHECK(pause_after(5ms) == 0s);
  CHECK(pause_after(5ms) == 1s);
}

TEST_CASE("Three attempts in a row without progress end the job") {
  RestartPolicy policy({.max_restarts = 100});
  const auto end = [&](const AttemptStory& story) {
    return policy.decide(caused_by(killed(0)), true, story, 1s).end;
  };
  CHECK_FALSE(end(told(20)));
  CHECK_FALSE(end(told(20)));
  CHECK_FALSE(end(told(19)));
  CHECK_FALSE(end(told(21)));  // one step further than ever
  CHECK_FALSE(end(told(5)));
  CHECK_FALSE(end(told(5, 3)));  // a snapshot, and steps count from there
  CHECK_FALSE(end(told(4, 3)));
  CHECK_FALSE(end(told(4, 3)));
  CHECK_FALSE(end(told(3, 3)));
  const auto reason = end(told(0, 3));
  REQUIRE(reason);
  CHECK(reason->find("3 attempts in a row made no progress") == 0);
  CHECK(policy.budget().used() == 9);  // the end restarts nothing
}

TEST_CASE(
    "The next coordinator goes on with the window, the pauses and the count of futile attempts") {
  const RestartRules rules{
      .max_restarts = 100, .window = RestartWindow{2, 60s}, .no_progress_max = 3};
  RestartPolicy before(rules);
  const auto fails = [](RestartPolicy& policy, const AttemptStory& story, Instant at) {
    return policy.decide(caused_by(killed(0)), true, story, at);
  };
  (void)fails(before, told(20, 3), 100s);
  (void)fails(before, told(0), 130s);
  // On its own clock, which says 1,000 s when the other one says 140 s.
  RestartPolicy after(rules);
  after.resume(before.budget().used(), before.state(140s), 1'000s);
  CHECK(after.budget().used() == 2);
  CHECK(fails(after, told(0), 1'019s).end == "2 restarts within 60 s are spent (--restart-window)");
  CHECK(fails(after, told(0), 1'021s).pause == 1s);  // the second in a row
  CHECK(fails(after, told(0), 1'060s).end->find("3 attempts in a row made no progress") == 0);
}

TEST_CASE("No more restarts are taken over than there are") {
  RestartPolicy policy({.max_restarts = 2});
  policy.resume(7, {}, 0s);
  CHECK(policy.budget().used() == 2);
}

TEST_CASE("Lost nodes are no lack of progress") {
  RestartPolicy policy({.max_restarts = 100});
  for (int i = 0; i < 10; ++i) {
    CHECK_FALSE(policy.decide(lost_node(), false, told(0), 1s).end);
  }
}
