#include "rendezvous/membership/ledger.h"

#include <catch2/catch.hpp>

#include "rendezvous/membership/ledger_text.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

TrainingProgress stepped(std::chrono::nanoseconds first_step_after, std::int64_t steps) {
  TrainingProgress told;
  told.told = true;
  told.first_step_after = first_step_after;
  told.steps = steps;
  return told;
}

TrainingProgress saved(std::int64_t epoch, std::chrono::nanoseconds after, std::int64_t steps) {
  TrainingProgress told;
  told.told = true;
  told.steps = steps;
  told.saved = SnapshotNumber::epoch(epoch);
  told.saved_after = after;
  told.steps_at_save = steps;
  return told;
}

TrainingProgress resumed(TrainingProgress told, std::int64_t epoch) {
  told.resumed_from = SnapshotNumber::epoch(epoch);
  return told;
}

/// A job of one node that began at 0, was assigned at 1 s, had its workers at 2 s, made its first
/// step at 4 s, and saved epoch 0 at 14 s after 100 steps.
Ledger trained() {
  Ledger ledger;
  ledger.begin(0s);
  ledger.assigned(1s, 1);
  ledger.all_started(2s);
  ledger.progress(stepped(3s, 1), 5s);
  ledger.progress(saved(0, 13s, 100), 15s);
  return ledger;
}

/// What trained() leads to when a worker fails at 20 s after 160 steps: known at 20.5 s, all
/// stopped at 21 s, assigned at 23 s, started at 26 s.
Ledger failed_once() {
  Ledger ledger = trained();
  TrainingProgress last = saved(0, 13s, 100);
  last.steps = 160;
  ledger.progress(last, 21s);
  ledger.ended(IncidentKind::worker_failed, {20s, 20'500ms, 21s});
  ledger.assigned(23s, 1);
  ledger.all_started(26s);
  return ledger;
}

std::chrono::nanoseconds whole_of(const TimeTrack& track) {
  return track.startup + track.productive + track.replayed + track.down();
}

}  // namespace

TEST_CASE("The start is not productive until the first step") {
  const Accounts accounts = trained().accounts(15s);
  CHECK(accounts.wall == 15s);
  CHECK(accounts.track().startup == 4s);
  CHECK(accounts.track().productive == 11s);
  CHECK(accounts.steps == 100);
  CHECK(accounts.ratio().value() == Approx(11.0 / 15));
}

TEST_CASE("The parts of an incident follow each other, and their sum is the downtime") {
  Ledger ledger = failed_once();
  CHECK_FALSE(ledger.recovered());
  ledger.progress(resumed(stepped(7s, 1), 0), 31s);
  CHECK(ledger.recovered());
  CHECK(ledger.break_down() == BreakDown{500ms, 500ms, 2s, 3s, 4s});
  CHECK(ledger.break_down().sum() == 10s);
  CHECK(ledger.accounts(31s).track().down() == 10s);
}

TEST_CASE("What was done since the snapshot is replayed, in steps and in time") {
  Ledger ledger = failed_once();
  CHECK(ledger.lost() == LostWork{60, 6s});
  ledger.progress(resumed(stepped(7s, 1), 0), 31s);
  CHECK(ledger.lost() == LostWork{60, 6s});
  const Accounts accounts = ledger.accounts(40s);
  CHECK(accounts.track().startup == 4s);
  CHECK(accounts.track().replayed == 6s);
  CHECK(accounts.track().productive == 20s);  // 4..14 and 30..40
  CHECK(whole_of(accounts.track()) == 40s);
  CHECK(accounts.replayed_steps == 60);
  CHECK(accounts.steps == 101);
  CHECK(accounts.ratio().value() == Approx(0.5));
}

TEST_CASE("Who resumes from an older snapshot than the newest does more again") {
  Ledger ledger = trained();
  ledger.progress(saved(1, 18s, 150), 20s);
  ledger.ended(IncidentKind::worker_failed, {20s, 20s, 20s});
  CHECK(ledger.lost() == LostWork{0, 1s});
  ledger.assigned(21s, 1);
  ledger.all_started(21s);
  SECTION("from one that was told") {
    ledger.progress(resumed(stepped(1s, 1), 0), 23s);
    CHECK(ledger.lost() == LostWork{50, 6s});
    CHECK(ledger.accounts(23s).steps == 101);
    SECTION("and what is saved from there on counts") {
      ledger.progress(saved(1, 11s, 51), 32s);
      ledger.ended(IncidentKind::node_lost, {32s, 32s, 32s});
      CHECK(ledger.lost() == LostWork{0, 0s});
      CHECK(ledger.accounts(32s).steps == 151);
    }
  }
  SECTION("from the beginning") {
    ledger.progress(stepped(1s, 1), 23s);
    CHECK(ledger.lost() == LostWork{150, 16s});
    CHECK(ledger.accounts(23s).track().productive == 1s);
  }
}

TEST_CASE("A snapshot whose worker died before it told of it undoes nothing that it holds") {
  const auto from_step = [](std::int64_t step) {
    TrainingProgress told = stepped(7s, 1);
    told.resumed_from = SnapshotNumber::step(step);
    return told;
  };
  SECTION("numbered by epochs: all that was done") {
    Ledger ledger = failed_once();
    CHECK(ledger.lost() == LostWork{60, 6s});
    ledger.progress(resumed(stepped(7s, 1), 1), 31s);
    CHECK(ledger.lost() == LostWork{0, 0s});
    const Accounts accounts = ledger.accounts(31s);
    CHECK(accounts.replayed_steps == 0);
    CHECK(accounts.track().replayed == 0s);
    CHECK(accounts.saved == TrainingPoint{SnapshotNumber::epoch(1), 160, 16s});
    CHECK(whole_of(accounts.track()) == accounts.wall);
  }
  SECTION("numbered by steps: those up to it") {
    Ledger ledger;
    ledger.begin(0s);
    ledger.assigned(1s, 1);
    ledger.all_started(2s);
    // Of an earlier job, at step 1000; this one has saved nothing that it told of.
    TrainingProgress first = from_step(1000);
    first.first_step_after = 3s;
    first.steps = 80;
    ledger.progress(first, 12s);
    ledger.ended(IncidentKind::worker_failed, {12s, 12s, 12s});
    CHECK(ledger.lost() == LostWork{80, 8s});
    ledger.assigned(13s, 1);
    ledger.all_started(14s);
    SECTION("a new one is there") {
      ledger.progress(from_step(1060), 21s);
      CHECK(ledger.lost() == LostWork{20, 2s});
      CHECK(ledger.accounts(21s).saved == TrainingPoint{SnapshotNumber::step(1060), 60, 6s});
    }
    SECTION("none is there but the earlier job's") {
      ledger.progress(from_step(1000), 21s);
      CHECK(ledger.lost() == LostWork{80, 8s});
      CHECK_FALSE(ledger.accounts(21s).saved.snapshot);
    }
  }
}

TEST_CASE("The first step is that of the slowest node, and awaited of all") {
  Ledger ledger = trained();
  ledger.ended(IncidentKind::node_lost, {16s, 16s, 16s});
  ledger.assigned(17s, 2);
  ledger.all_started(18s);
  ledger.progress(resumed(stepped(3s, 1), 0), 21s);
  CHECK_FALSE(ledger.recovered());
  ledger.progress(resumed(stepped(2s, 1), 0), 22s);
  CHECK(ledger.recovered());
  CHECK(ledger.break_down().first_step == 2s);
}

TEST_CASE("An attempt that ended before its first step was waited for in vain") {
  Ledger ledger = failed_once();
  ledger.ended(IncidentKind::worker_failed, {28s, 28s, 29s});
  CHECK(ledger.break_down_before().in_vain);
  CHECK(ledger.break_down_before().sum() == 8s);
  CHECK(ledger.lost() == LostWork{0, 0s});
  ledger.assigned(29s, 1);
  ledger.all_started(29s);
  ledger.progress(resumed(stepped(1s, 1), 0), 31s);
  const Accounts accounts = ledger.accounts(31s);
  CHECK(accounts.track().down() == 10s);
  CHECK(whole_of(accounts.track()) == 31s);
}

TEST_CASE("Downtime is told apart by what it began with") {
  Ledger ledger = failed_once();
  ledger.progress(resumed(stepped(4s, 1), 0), 27s);  // at 27 s: 7 s down
  ledger.ended(IncidentKind::node_lost, {30s, 33s, 33s});
  ledger.closed(40s, false);
  const Accounts accounts = ledger.accounts(40s);
  CHECK(accounts.track().downtime[static_cast<std::size_t>(IncidentKind::worker_failed)] == 7s);
  CHECK(accounts.track().downtime[static_cast<std::size_t>(IncidentKind::node_lost)] == 10s);
}

TEST_CASE("Where workers tell no steps, training counts from their start") {
  Ledger ledger;
  ledger.begin(0s);
  ledger.assigned(1s, 2);
  ledger.all_started(2s);
  ledger.ended(IncidentKind::worker_failed, {10s, 10s, 11s});
  CHECK(ledger.lost() == LostWork{});
  ledger.assigned(11s, 2);
  ledger.all_started(12s);
  CHECK(ledger.recovered());
  CHECK(ledger.break_down() == BreakDown{0s, 1s, 0s, 1s});
  ledger.closed(20s, true);
  const Accounts accounts = ledger.accounts(20s);
  CHECK_FALSE(accounts.steps_told);
  CHECK(accounts.ratio().value() == Approx(0.8));
}

TEST_CASE(
    "A job that is stopped has done in vain what no snapshot has, one that succeeds has not") {
  Ledger ledger = trained();
  ledger.stopping(24s);
  SECTION("stopped") {
    ledger.closed(30s, false);
    const Accounts accounts = ledger.accounts(30s);
    CHECK(accounts.track().productive == 10s);
    CHECK(accounts.track().replayed == 10s);
    CHECK(accounts.track().downtime[static_cast<std::size_t>(IncidentKind::ending)] == 6s);
  }
  SECTION("stopped, and saved by all before it ended") {
    ledger.progress(saved(1, 28s, 120), 29s);
    ledger.closed(30s, false);
    CHECK(ledger.accounts(30s).track().replayed == 0s);
  }
  SECTION("succeeded") {
    ledger.closed(24s, true);
    CHECK(ledger.accounts(24s).track().productive == 20s);
  }
}

TEST_CASE("A silence that began before the attempt got going counts no time twice") {
  Ledger ledger = trained();
  ledger.ended(IncidentKind::node_lost, {3s, 16s, 16s});
  CHECK(ledger.break_down().detect == 12s);  // from the first step on
  CHECK(whole_of(ledger.accounts(16s).track()) == 16s);
}

TEST_CASE("What a node claims is brought within what can be") {
  Ledger ledger;
  ledger.begin(0s);
  ledger.assigned(10s, 1);
  ledger.all_started(11s);
  SECTION("a first step after its report") {
    ledger.progress(stepped(100s, 1), 12s);
    CHECK(ledger.accounts(12s).track().startup == 12s);
  }
  SECTION("a first step before the assignment") {
    ledger.progress(stepped(-5s, 1), 12s);
    CHECK(ledger.accounts(12s).track().startup == 11s);
  }
  SECTION("a snapshot before its first step, and of more steps than were made") {
    ledger.progress(stepped(1s, 1), 12s);
    ledger.progress(saved(3, -9s, 1'000), 13s);
    ledger.ended(IncidentKind::worker_failed, {13s, 13s, 13s});
    CHECK(ledger.lost().time == 2s);
  }
}

TEST_CASE("A successor goes on with the accounts of the coordinator before") {
  const Accounts so_far = trained().accounts(15s);
  REQUIRE(so_far.ran_by_step);
  Ledger ledger;
  ledger.begin(1'000s, so_far);  // its own clock; the other one was lost 2 s after it had told
  ledger.ended(IncidentKind::coordinator_lost, {1'002s, 1'005s, 1'005s});
  CHECK(ledger.lost() == LostWork{std::nullopt, 3s});
  CHECK(ledger.wall_at(1'002s) == 17s);  // of the job, not of this coordinator
  CHECK(ledger.wall_at(900s) == 0s);
  ledger.assigned(1'006s, 1);
  ledger.all_started(1'006s);
  ledger.progress(resumed(stepped(1s, 1), 0), 1'008s);
  const Accounts accounts = ledger.accounts(1'010s);
  CHECK(accounts.wall == 25s);
  CHECK(accounts.track().startup == 4s);
  CHECK(accounts.track().down() == 5s);
  CHECK(accounts.track().replayed == 3s);
  CHECK(accounts.track().productive == 13s);
}

TEST_CASE("Accounts that do not add up are not gone on with") {
  Accounts wrong = trained().accounts(15s);
  wrong.wall += 1s;
  Ledger ledger;
  ledger.begin(100s, wrong);
  CHECK(ledger.accounts(101s).wall == 1s);
}

TEST_CASE("Snapshots beyond those remembered are as far back as the beginning") {
  Ledger ledger = trained();
  for (std::int64_t epoch = 1; epoch <= static_cast<std::int64_t>(kTrainingPointsMax); ++epoch) {
    ledger.progress(saved(epoch, 13s + epoch * 1s, 100 + epoch), 200s);
  }
  ledger.ended(IncidentKind::worker_failed, {200s, 200s, 200s});
  ledger.assigned(200s, 1);
  ledger.all_started(200s);
  ledger.progress(resumed(stepped(1s, 1), 0), 202s);
  CHECK(ledger.lost().steps == 100 + static_cast<std::int64_t>(kTrainingPointsMax));
}

TEST_CASE("Parts that are shown in whole milliseconds add up to the downtime that is shown") {
  CHECK(break_down_text({600us, 600us, 600us, 600us, 600us}) ==
        "detect 0, stop 1, rendezvous 0, spawn 1, first step 1 ms");
  CHECK(break_down_text({1ms, 2ms}) == "detect 1, stop 2 ms");
  CHECK(break_down_text({0ms, 0ms, 1ms, 9ms, std::nullopt, true}) ==
        "detect 0, stop 0, rendezvous 1, spawn 9 ms in vain");
}

TEST_CASE("Lost work is told as far as it is known") {
  CHECK(lost_work_text({}, true).empty());
  CHECK(lost_work_text({0, 0s}, true).empty());
  CHECK(lost_work_text({1, 20ms}, true) == "1 step (20 ms) done again");
  CHECK(lost_work_text({17, 20ms}, false) == "17 steps (20 ms) that no snapshot has");
  CHECK(lost_work_text({std::nullopt, 90s}, true) == "1 min 30 s done again");
}

TEST_CASE("The share of effective training is never rounded up") {
  Accounts accounts;
  accounts.wall = 100'000s;
  accounts.steps_told = true;
  accounts.by_step.productive = 99'999s;
  accounts.by_step.downtime[0] = 1s;
  CHECK(accounts_text(accounts, 1) ==
        "effective training time 99.9 % of 1 d 3 h: 1 incident, 1.0 s down, 0 ms replayed");
}
