#include "agent/hang/hang_detector.h"

#include <catch2/catch.hpp>
#include <string>

#include "agent/hang/collective_position.h"
#include "agent/hang/stack_collector.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

WorkerSigns at(std::chrono::nanoseconds changed) {
  WorkerSigns signs;
  signs.told = true;
  signs.stepped = true;
  signs.changed_at = changed;
  return signs;
}

WorkerSigns silent(std::chrono::nanoseconds cpu, std::uint64_t output = 0) {
  WorkerSigns signs;
  signs.cpu = cpu;
  signs.output = output;
  return signs;
}

constexpr HangTimeouts kTimeouts{2s, 60s};

}  // namespace

TEST_CASE("A worker hangs once it has told nothing for the timeout, and is looked at just then") {
  HangDetector rule(kTimeouts, 100s);
  const auto first = rule.look(101s, {at(100500ms), at(101s)});
  CHECK(first.still.empty());
  CHECK(first.look_again == 102500ms);
  const auto second = rule.look(102500ms, {at(100500ms), at(102400ms)});
  CHECK(second.still == std::vector{0});
  CHECK(second.still_for == 2s);
}

TEST_CASE("Until its first step a worker has the start timeout") {
  HangDetector rule(kTimeouts, 100s);
  WorkerSigns starting = at(101s);
  starting.stepped = false;
  const auto early = rule.look(110s, {starting});
  CHECK(early.still.empty());
  CHECK(early.look_again == 112s);  // it may make its first step at any time
  HangDetector late(kTimeouts, 100s);
  CHECK(late.look(161s, {starting}).still == std::vector{0});
}

TEST_CASE("Who has ended, or is at its end, does not hang") {
  HangDetector rule(kTimeouts, 100s);
  WorkerSigns gone = at(100s);
  gone.runs = false;
  WorkerSigns ended = at(100s);
  ended.ended = true;
  CHECK(rule.look(1000s, {gone, ended}).still.empty());
}

TEST_CASE("Marks from before the attempt do not count against it") {
  HangDetector rule(kTimeouts, 100s);
  CHECK(rule.look(101s, {at(3s)}).still.empty());
}

TEST_CASE("A node that stood still itself gives its workers a moment") {
  HangDetector rule(kTimeouts, 100s);
  CHECK(rule.look(101s, {at(101s)}).look_again == 103s);
  const auto woken = rule.look(500s, {at(101s)});
  CHECK(woken.still.empty());
  CHECK(woken.look_again == 500500ms);
  CHECK(rule.look(500500ms, {at(101s)}).still == std::vector{0});
}

TEST_CASE("Workers that tell nothing hang when all of them are idle") {
  HangDetector rule(kTimeouts, 100s);
  CHECK(rule.look(100s, {silent(1s), silent(1s)}).look_again == 100250ms);
  CHECK(rule.look(101s, {silent(1010ms), silent(3s)}).still.empty());  // the second one works
  CHECK(rule.look(102500ms, {silent(1020ms), silent(3s)}).still.empty());
  CHECK(rule.look(103s, {silent(1030ms), silent(3s)}).still == std::vector{0, 1});
}

TEST_CASE("What shows something is not idle") {
  HangDetector rule(kTimeouts, 100s);
  for (auto now = 100'000ms; now < 103'750ms; now += 250ms) {
    CHECK(rule.look(now, {silent(0s, now < 101'750ms ? 1 : 2)}).still.empty());
  }
  CHECK(rule.look(103'750ms, {silent(0s, 2)}).still == std::vector{0});
}

TEST_CASE("A worker that tells nothing beside one that does is not looked at") {
  HangDetector rule(kTimeouts, 100s);
  CHECK(rule.look(100s, {silent(0s), at(100s)}).still.empty());
  CHECK(rule.look(102s, {silent(0s), at(101900ms)}).still.empty());
}

TEST_CASE("A page says what a worker waits in") {
  auto channel = ProgressChannel::create();
  REQUIRE(channel.has_value());
  ProgressPage& page = channel->page();
  CHECK_FALSE(position_of(3, page, 9s).told);
  page.magic = ProgressPage::kMagic;
  page.phase = static_cast<std::uint64_t>(WorkPhase::training);
  page.steps = 16;
  page.changed_ns = std::chrono::nanoseconds(4s).count();
  page.collectives[0].entered = 20;
  page.collectives[0].finished = 17;
  page.collectives[0].waiting = 17;
  WorkerPosition one = position_of(3, page, 9s);
  CHECK(one.rank == 3);
  CHECK(one.phase == "training");
  CHECK(one.steps == 16);
  CHECK(one.still_for == 5s);
  CHECK(one.operation.empty());  // the one it waited for is done
  CHECK(one.entered[0] == 20);
  page.collectives[0].waiting = 18;
  page.collectives[0].what = static_cast<std::uint64_t>(CollectiveKind::barrier)
                             << CollectiveCounters::kKindShift;
  one = position_of(3, page, 9s);
  CHECK(one.operation == "barrier");
  CHECK(one.sequence == 18);
  CHECK(one.bytes == 0);
  page.collectives[1].entered = page.collectives[1].waiting = 5;
  page.collectives[1].what = static_cast<std::uint64_t>(CollectiveKind::all_reduce)
                                 << CollectiveCounters::kKindShift |
                             4096;
  one = position_of(3, page, 9s);
  CHECK(one.operation == "all_reduce");
  CHECK(one.group == 1);
  CHECK(one.bytes == 4096);
  page.phase = 77;  // of a newer runtime
  page.collectives[1].what = std::uint64_t{0xff} << CollectiveCounters::kKindShift;
  one = position_of(3, page, 9s);
  CHECK(one.phase == "at work");
  CHECK(one.operation == "a collective");
}

TEST_CASE("Of a stack the main thread's frames are shown, without the handler's, with full names") {
  const std::string stacks =
      "thread 5 (train)\n"
      "/lib/libddprun_worker_runtime.so(+0x10) [0x1]\n"
      "/lib/libc.so.6(+0x3c050) [0x2]\n"
      "/lib/libc.so.6(pause+0x32) [0x3]\n"
      "/opt/train(_ZN3ddp5trainEv+0x12) [0x4]\n"
      "train(+0x99) [0x5]\n"
      "[0x6]\n"
      "thread 6 (gloo)\n"
      "other(+0x1) [0x7]\n";
  CHECK(newest_frames(stacks, 1000) ==
        "libc.so.6 pause+0x32\ntrain ddp::train()+0x12\ntrain +0x99\n[0x6]\n");
  CHECK(newest_frames(stacks, 25) == "libc.so.6 pause+0x32\n");
  CHECK(newest_frames("", 1000).empty());
}

TEST_CASE("Python's own report of its stacks is taken from the end of stderr") {
  const std::string tail =
      "Fatal Python error: Aborted\n\nThread 0x1 (most recent call first):\n"
      "  File \"queue.py\", line 3 in get\n\n"
      "Current thread 0x2 (most recent call first):\n"
      "  File \"train.py\", line 9 in wait\n  File \"train.py\", line 20 in <module>\n\n"
      "Extension modules: numpy, torch (total: 2)\n";
  CHECK(python_frames(tail, 1000) ==
        "File \"train.py\", line 9 in wait\nFile \"train.py\", line 20 in <module>\n");
  CHECK(python_frames("nothing of the kind\n", 1000).empty());
}
