#include "rendezvous/membership/incident.h"

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

std::vector<int> ranks_blamed(const Incident& incident, Blame blame) {
  std::vector<int> ranks;
  for (const FailureRecord& record : incident.records) {
    if (record.blame == blame) {
      ranks.push_back(record.rank);
    }
  }
  return ranks;
}

FailureRecord on(const std::string& node, FailureRecord record) {
  record.node = node;
  return record;
}

}  // namespace

TEST_CASE("The earliest failure by the coordinator's clock is the cause (I-20)") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 8);
  auto victim = on("n1", exited(0, 1));
  victim.time = std::chrono::sys_seconds(1s);  // a wall clock that is years behind
  b.add(victim, 100s);
  b.add(on("n2", killed(5, 50ms)), 100s + 10ms);
  b.add(on("n1", after_stop(killed(1, 1s))), 101s);
  CHECK(b.reason() == "rank 5 on n2 was killed by SIGKILL");
  const Incident incident = b.build();
  CHECK(ranks_blamed(incident, Blame::cause) == std::vector{5});
  CHECK(ranks_blamed(incident, Blame::victim) == std::vector{0});
  CHECK(ranks_blamed(incident, Blame::stopped_by_us) == std::vector{1});
  CHECK(incident.records.front().rank == 5);
}

TEST_CASE("Who lost a peer is a victim while there is another candidate") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.add(peer_lost(exited(0, 1)), 100s);
  b.add(exited(3, 2), 100s + 1s);
  CHECK(ranks_blamed(b.build(), Blame::cause) == std::vector{3});
}

TEST_CASE("When all lost a peer, the first of them is the cause") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.add(peer_lost(exited(2, 1)), 100s + 1ms);
  b.add(peer_lost(exited(1, 1)), 100s);
  CHECK(b.spends_restart());
  CHECK(ranks_blamed(b.build(), Blame::cause) == std::vector{1});
}

TEST_CASE("Failures at the same instant are ordered by rank") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.add(killed(2), 100s);
  b.add(killed(1), 100s);
  CHECK(ranks_blamed(b.build(), Blame::cause) == std::vector{1});
}

TEST_CASE("Workers that fail after a node was lost are its victims") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.node_lost("n2", "it was silent for 3 s", 97s);
  b.add(exited(0, 1, 2s), 100s);
  CHECK_FALSE(b.spends_restart());
  CHECK(b.reason() == "node n2 was lost (it was silent for 3 s)");
  CHECK(ranks_blamed(b.build(), Blame::victim) == std::vector{0});
}

TEST_CASE("Workers that fail while the world is stopped to grow are victims of that") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.node_joined("n3", 100s);
  b.add(exited(0, 1), 100s + 5ms);
  CHECK_FALSE(b.spends_restart());
  CHECK(b.reason() == "node n3 joined");
}

TEST_CASE("A worker that failed just before a node joined is the cause") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.node_joined("n3", 100s);
  b.add(exited(0, 1, 10ms), 100s + 5ms);
  CHECK(b.spends_restart());
}

TEST_CASE("The fuller second report of a rank replaces the first, at the earlier time") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  b.add(killed(1), 100s);
  b.add(exited(2, 1), 100s + 1ms);
  auto full = killed(1, 1s);
  full.stderr_tail = "segfault";
  b.add(full, 101s + 2ms);
  const Incident incident = b.build();
  REQUIRE(incident.records.size() == 2);
  CHECK(incident.records[0].rank == 1);
  CHECK(incident.records[0].stderr_tail == "segfault");
}

TEST_CASE("Successes and ranks outside of the world are no failures") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 2);
  b.add(exited(0, 0), 100s);
  b.add(killed(2), 100s);
  b.add(killed(-1), 100s);
  CHECK(b.build().records.empty());
}

TEST_CASE("Whoever left first with code 0 is the cause where all that failed lost a peer (I-20)") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 6);
  b.add(peer_lost(exited(2, 1)), 100s);
  FailureRecord left = exited(1, 0);
  left.node = "n1";
  left.age = 1500ms;
  b.add(left, 100s);
  b.add(exited(4, 0), 101s);  // its agent noticed it after the failure that it brought about
  FailureRecord told = exited(3, 0);
  told.after_stop = true;
  b.add(told, 101s);
  const Incident incident = b.build();
  CHECK(incident.reason == "rank 1 on n1 left with code 0 while others still ran");
  REQUIRE(incident.records.size() == 2);
  CHECK(incident.records[0].rank == 1);
  CHECK(incident.records[0].blame == Blame::cause);
  CHECK(incident.records[0].message ==
        "it ended 1.5 s before rank 2 failed for the loss of a peer; so did rank 4");
  CHECK(incident.records[1].rank == 2);
  CHECK(incident.records[1].blame == Blame::victim);
}

TEST_CASE("Whoever left with code 0 is not the cause where a worker failed by itself") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 3);
  b.add(exited(0, 0, 5s), 100s);
  b.add(peer_lost(exited(1, 1)), 100s);
  b.add(exited(2, 3), 101s);
  const Incident incident = b.build();
  REQUIRE(incident.records.size() == 2);
  CHECK(incident.records[0].rank == 2);
  CHECK(incident.records[0].blame == Blame::cause);
}

TEST_CASE("A rank that was stopped on its way out is the cause of those that lost it") {
  const bool by_itself = GENERATE(false, true);
  IncidentBuilder b(AttemptNumber{0}, 100s, 4);
  FailureRecord stopped = after_stop(killed(1));
  stopped.node = "n1";
  stopped.own_error = true;
  stopped.message = "ValueError: bad batch";
  b.add(stopped, 101s);
  b.add(after_stop(killed(3)), 101s);
  b.add(peer_lost(exited(2, 1)), 100s);
  if (by_itself) {
    b.add(exited(0, 1), 101s);
  }
  const Incident incident = b.build();
  CHECK(incident.records[0].rank == (by_itself ? 0 : 1));
  CHECK(incident.records[0].blame == Blame::cause);
  if (!by_itself) {
    CHECK(incident.reason == "rank 1 on n1 failed, and its peers for the loss of it");
    CHECK(incident.records[1].blame == Blame::victim);
  }
  CHECK(incident.records.back().rank == 3);
  CHECK(incident.records.back().blame == Blame::stopped_by_us);
}

TEST_CASE("Records beyond the limit are counted, and the cause survives") {
  const int n = GENERATE(63, 64, 65, 127, 128, 129, 5000);
  IncidentBuilder b(AttemptNumber{0}, 100s, n);
  for (int rank = 0; rank < n; ++rank) {  // the cause arrives last
    b.add(killed(rank, std::chrono::milliseconds(rank)), 100s);
  }
  for (int rank = 0; rank < n; ++rank) {  // repeated reports are not counted twice
    b.add(killed(rank, std::chrono::milliseconds(rank)), 100s);
  }
  const Incident incident = b.build();
  const int kept = std::min(n, static_cast<int>(kIncidentRecordsMax));
  CHECK(incident.records.size() == static_cast<std::size_t>(kept));
  CHECK(incident.records_dropped == n - kept);
  CHECK(incident.records.front().rank == n - 1);
  CHECK(incident.records.front().blame == Blame::cause);
}

TEST_CASE("The evidence kept of an incident is bounded, the cause's first") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 64);
  for (int rank = 0; rank < 64; ++rank) {
    auto record = killed(rank, std::chrono::milliseconds(rank));
    record.error_file_json.assign(kErrorFileBytesMax, 'x');
    b.add(record, 100s);
  }
  const Incident incident = b.build();
  std::size_t bytes = 0;
  for (const FailureRecord& record : incident.records) {
    bytes += record.error_file_json.size();
  }
  CHECK(bytes == kIncidentEvidenceBytesMax);
  CHECK(incident.records.front().error_file_json.size() == kErrorFileBytesMax);
}

TEST_CASE("A reason names a few lost nodes and counts the others") {
  IncidentBuilder b(AttemptNumber{0}, 100s, 8);
  for (int i = 1; i <= 6; ++i) {
    b.node_lost("n" + std::to_string(i), "its connection closed", 100s);
  }
  CHECK(b.reason() == "nodes n1, n2, n3, n4 and 2 more were lost (n1: its connection closed)");
}

TEST_CASE("Exit codes and signals read differently") {
  CHECK(to_clause({ExitStatus::Kind::exited, 9}) == "exited with code 9");
  CHECK(to_clause({ExitStatus::Kind::signalled, 9}) == "was killed by SIGKILL");
  CHECK(to_clause({ExitStatus::Kind::signalled, 11}) == "was killed by SIGSEGV");
}
