#include "rendezvous/membership/hang_diagnosis.h"

#include "rendezvous/membership/incident.h"
#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

WorkerPosition trains(int rank, std::int64_t steps, std::uint64_t entered) {
  WorkerPosition one;
  one.rank = rank;
  one.told = true;
  one.phase = "training";
  one.steps = steps;
  one.entered = {entered, 0};
  return one;
}

WorkerPosition waits(int rank, const std::string& operation, std::uint64_t sequence,
                     std::uint64_t bytes = 0) {
  WorkerPosition one = trains(rank, 16, sequence);
  one.operation = operation;
  one.sequence = sequence;
  one.bytes = bytes;
  return one;
}

WorkerPosition stopped(WorkerPosition one) {
  one.standstill = "stopped by a signal (state T)";
  return one;
}

}  // namespace

TEST_CASE("Who has not entered what the others wait in is late (I-12)") {
  const HangDiagnosis verdict =
      judge_hang({trains(3, 15, 16), waits(0, "all_reduce", 17, 4 << 20),
                  waits(1, "all_reduce", 17, 4 << 20), waits(2, "all_reduce", 17, 4 << 20)});
  CHECK(verdict.late == std::vector{3});
  CHECK(verdict.first == 3);
  CHECK(verdict.text ==
        "ranks 0-2 wait in all_reduce #17 (4 MiB); rank 3 has not entered it: it is at training "
        "step 16");
}

TEST_CASE("Who waits elsewhere for the late one is not late itself") {
  // Rank 1 has finished #17 by its own part and waits in #18; rank 2 never came to #17.
  const HangDiagnosis verdict =
      judge_hang({waits(0, "all_reduce", 17), waits(1, "barrier", 18), trains(2, 15, 16)});
  CHECK(verdict.late == std::vector{2});
  CHECK(verdict.text ==
        "rank 0 waits in all_reduce #17; rank 1 waits in barrier #18; rank 2 has not entered "
        "all_reduce #17: it is at training step 16");
}

TEST_CASE("Who is late and waits in an earlier collective is late only when all of those do") {
  const HangDiagnosis stuck =
      judge_hang({waits(0, "broadcast", 4), waits(1, "all_reduce", 9), waits(2, "all_reduce", 9)});
  CHECK(stuck.late == std::vector{0});
  const HangDiagnosis behind =
      judge_hang({waits(0, "broadcast", 4), waits(1, "all_reduce", 9), trains(2, 0, 3)});
  CHECK(behind.late == std::vector{2});
}

TEST_CASE("A worker that is stopped inside the collective is the one") {
  const HangDiagnosis verdict =
      judge_hang({waits(0, "all_reduce", 17), stopped(waits(1, "all_reduce", 17))});
  CHECK(verdict.late == std::vector{1});
  CHECK(verdict.text ==
        "rank 0 waits in all_reduce #17; rank 1 waits in all_reduce #17, stopped by a signal "
        "(state T)");
}

TEST_CASE("Different collectives of one number are the program's mistake: the fewer are named") {
  const HangDiagnosis verdict = judge_hang({waits(0, "all_reduce", 5), waits(1, "all_reduce", 5),
                                            waits(2, "barrier", 5), waits(3, "all_reduce", 5)});
  CHECK(verdict.late == std::vector{2});
  CHECK(verdict.text ==
        "ranks 0, 1, 3 wait in all_reduce #5; rank 2 waits in barrier #5: they do not call the "
        "same collectives");
}

TEST_CASE("When all wait in one collective nobody is named") {
  auto longest = waits(1, "all_reduce", 5);
  longest.still_for = 3s;
  const HangDiagnosis verdict = judge_hang({waits(0, "all_reduce", 5), longest});
  CHECK(verdict.late.empty());
  CHECK(verdict.first == 1);  // its record is the one that is shown
  CHECK(verdict.text == "ranks 0, 1 wait in all_reduce #5: all have entered it, so none is late");
}

TEST_CASE("When nobody waits, the one that has stood for the longest is named") {
  auto saving = trains(1, 7, 9);
  saving.phase = "saving a snapshot";
  saving.still_for = 9s;
  const HangDiagnosis verdict = judge_hang({trains(0, 8, 9), saving});
  CHECK(verdict.late == std::vector{1});
  CHECK(verdict.text == "rank 1 is saving a snapshot; rank 0 is at training step 9");
}

TEST_CASE("A GPU group's collectives are compared among themselves") {
  auto gpu = waits(0, "all_reduce", 40);
  gpu.group = 1;
  gpu.entered = {3, 40};
  auto late = trains(1, 39, 3);
  late.entered = {3, 39};
  CHECK(judge_hang({gpu, late}).late == std::vector{1});
}

TEST_CASE("Workers that tell nothing are said to") {
  WorkerPosition a;
  WorkerPosition b;
  b.rank = 1;
  const HangDiagnosis verdict = judge_hang({a, b});
  CHECK(verdict.late.empty());
  CHECK(verdict.text == "ranks 0, 1 tell nothing (without the worker runtime)");
}

TEST_CASE("A verdict on many ranks stays short, and costs little more than reading them") {
  std::vector<WorkerPosition> all;
  for (int rank = 0; rank < 80'000; ++rank) {
    all.push_back(rank % 2 == 0 ? waits(rank, "all_reduce", 17) : trains(rank, rank % 50, 16));
  }
  const HangDiagnosis verdict = judge_hang(std::move(all));
  CHECK(verdict.late.size() == 40'000);
  CHECK(verdict.text.size() < 1500);
}

TEST_CASE("Ranks and sizes are written as people read them") {
  CHECK(ranks_text({4}) == "rank 4");
  CHECK(ranks_text({0, 1}) == "ranks 0, 1");
  CHECK(ranks_text({0, 1, 2, 5}) == "ranks 0-2, 5");
  CHECK(bytes_text(12) == "12 B");
  CHECK(bytes_text(1536) == "1.5 KiB");
  CHECK(bytes_text(4 << 20) == "4 MiB");
  CHECK(bytes_text(1023) == "1023 B");
}

TEST_CASE("In a hang the late rank is the cause, though we ended it") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.hung(100s);
  b.add_positions("n1", 0, {waits(0, "all_reduce", 17), waits(1, "all_reduce", 17)});
  b.add_positions("n2", 1, {waits(2, "all_reduce", 17), trains(3, 15, 16)});
  b.add_positions("n2", 1, {waits(3, "all_reduce", 17)});  // told later: not believed
  auto first = peer_lost(exited(0, 1));
  b.add(first, 101s);
  b.add(after_stop(killed(3)), 102s);
  CHECK(b.spends_restart());
  CHECK(b.reason().starts_with("rank 3 on n2 hung: ranks 0-2 wait in all_reduce #17; rank 3 has"));
  const Incident incident = b.build();
  CHECK(incident.records.front().rank == 3);
  CHECK(incident.records.front().hung);
  CHECK(incident.records.front().blame == Blame::cause);
  CHECK(incident.records.front().message.starts_with("hung: "));
}

TEST_CASE("A late rank whose node left without a record gets one") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 2);
  b.hung(100s);
  b.add_positions("n1", 0, {waits(0, "all_reduce", 17)});
  b.add_positions("n2", 1, {trains(1, 15, 16)});
  b.node_lost("n2", "its connection closed", 107s);
  b.add(after_stop(killed(0)), 101s);
  const Incident incident = b.build();
  CHECK(incident.records.front().rank == 1);
  CHECK(incident.records.front().node == "n2");
  CHECK_FALSE(incident.node_lost);
}

TEST_CASE("Who failed by itself before the hang was seen stays the cause") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 2);
  b.hung(100s);
  b.add_positions("n1", 0, {waits(0, "all_reduce", 17)});
  b.add(exited(1, 3, 2s), 100s + 1ms);
  CHECK(b.build().records.front().rank == 1);
}

TEST_CASE("Of very many ranks that are ended in a hang the late one's record is kept") {
  const int ranks = 1000;
  IncidentBuilder b(AttemptNumber{0}, 100s, ranks);
  b.hung(100s);
  std::vector<WorkerPosition> positions;
  for (int rank = 0; rank < ranks; ++rank) {
    positions.push_back(rank == 500 ? trains(rank, 15, 16) : waits(rank, "all_reduce", 17));
  }
  b.add_positions("n1", 0, positions);
  for (int rank = 0; rank < ranks; ++rank) {
    auto record = after_stop(killed(rank));
    record.stack = rank == 500 ? "here" : "there";
    b.add(record, 101s);
  }
  const Incident incident = b.build();
  CHECK(incident.records.front().rank == 500);
  CHECK(incident.records.front().stack == "here");
}

TEST_CASE("A hang on one node has all nodes look before they stop, and spends a restart") {
  Story s(fixed(2, 1));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.started(a);
  s.started(b);
  s.apply(WorkersHung{a, s.attempt(), {waits(0, "all_reduce", 17)}, "rank 0 made no progress"});
  const auto orders = s.all<StopWorkers>();
  REQUIRE(orders.size() == 2);
  for (const StopWorkers& order : orders) {
    CHECK(order.how == StopHow::hang);
    CHECK(order.reason == "rank 0 made no progress on n1 (--hang-timeout)");
  }
  s.apply(WorkersHung{b, s.attempt(), {trains(1, 15, 16)}, "as ordered"});
  CHECK(s.commands.empty());
  s.stopped(a, {after_stop(killed(0))});
  s.stopped(b, {after_stop(killed(1))});
  CHECK(s.all<AssignWorld>().size() == 2);
  const auto summary_of = [&] {
    s.finished(a);
    s.finished(b);
    return *s.only<FinishJob>().summary;
  };
  const JobSummary summary = summary_of();
  CHECK(summary.restarts_used == 1);
  REQUIRE(summary.incidents.size() == 1);
  CHECK(summary.incidents[0].reason.starts_with("rank 1 on n2 hung: rank 0 waits in"));
}

TEST_CASE("A node tells nothing of the workers of others, and nothing after its end") {
  Story s(fixed(2, 1));
  const NodeId a = s.join("n1");
  const NodeId b = s.join("n2");
  s.apply(WorkersHung{a, AttemptNumber{7}, {waits(0, "all_reduce", 17)}, "another attempt"});
  CHECK(s.commands.empty());
  s.apply(WorkersHung{a, s.attempt(), {waits(0, "all_reduce", 17), trains(1, 3, 4)}, "why"});
  s.stopped(a, {after_stop(killed(0))});
  s.apply(WorkersHung{a, s.attempt(), {stopped(waits(0, "all_reduce", 17))}, "too late"});
  s.stopped(b, {after_stop(killed(1))});
  s.finished(a);
  s.finished(b);
  CHECK(s.only<FinishJob>().summary->incidents[0].reason ==
        "workers hung: rank 0 waits in all_reduce #17");
}
