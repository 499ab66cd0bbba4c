// What people are told of a failure when it happens, and who is told.
#include "rendezvous/membership/incident_line.h"

#include <algorithm>
#include <csignal>

#include "tests/unit/membership/story.h"

using namespace ddprun;
using namespace ddprun::story;

namespace {

/// Of rank 3 on node1, which exited with code 1.
Incident failure() {
  Incident incident;
  incident.reason = "rank 3 on node1 exited with code 1";
  FailureRecord cause = exited(3, 1);
  cause.message = "exited with code 1; last line of stderr: ValueError: bad batch 17";
  cause.stderr_tail = "Traceback (most recent call last):\nValueError: bad batch 17\n \n";
  incident.records.push_back(std::move(cause));
  return incident;
}

Aftermath restart() {
  Aftermath after;
  after.next = AttemptNumber{1};
  after.restart = 1;
  after.max_restarts = 3;
  after.snapshot = SnapshotNumber::epoch(40);
  return after;
}

Aftermath ending(const std::string& why) {
  Aftermath after;
  after.end = why;
  return after;
}

}  // namespace

TEST_CASE("A failure's line has its cause, what the worker said, and what follows") {
  CHECK(incident_line(failure(), restart()) ==
        "rank 3 on node1 exited with code 1: ValueError: bad batch 17; attempt 1 begins (restart 1 "
        "of at most 3), from epoch 40");
  Incident recorded = failure();
  recorded.records[0].error_file_path = "/tmp/error.json";
  recorded.records[0].message = "RuntimeError: recorded";
  CHECK(incident_line(recorded, ending("all 3 restarts are spent")) ==
        "rank 3 on node1 exited with code 1: RuntimeError: recorded; all 3 restarts are spent; the "
        "job ends");
  CHECK(incident_line(failure(), ending("that ends the job (--on exit:1=fail)"))
            .ends_with("bad batch 17; that ends the job (--on exit:1=fail)"));
}

TEST_CASE("Of a worker that was killed from outside stderr says nothing, its agent may") {
  Incident killed_one = failure();
  killed_one.reason = "rank 3 on node1 was killed by SIGKILL";
  FailureRecord& cause = killed_one.records[0];
  cause.exit = {ExitStatus::Kind::signalled, SIGKILL};
  cause.message = "Signal 9 (SIGKILL) received by PID 7";
  CHECK(incident_line(killed_one, restart())
            .starts_with("rank 3 on node1 was killed by SIGKILL; attempt 1"));
  cause.note = "the kernel killed it for want of memory";
  CHECK(incident_line(killed_one, restart())
            .starts_with("rank 3 on node1 was killed by SIGKILL: the kernel killed it for want of "
                         "memory; attempt 1"));
  cause.note.clear();
  cause.exit.value = SIGABRT;  // what a C++ exception that nobody caught ends in
  CHECK(incident_line(killed_one, restart()).find(": ValueError: bad batch 17; ") !=
        std::string::npos);
}

TEST_CASE("A lost node costs nothing, and what is waited for is told") {
  Incident lost;
  lost.reason = "node node2 was lost (its connection closed)";
  lost.kind = IncidentKind::node_lost;
  Aftermath after;
  after.next = AttemptNumber{4};
  CHECK(incident_line(lost, after) ==
        "node node2 was lost (its connection closed); attempt 4 begins (costs no restart)");
  after.missing = 1;
  CHECK(incident_line(lost, after) ==
        "node node2 was lost (its connection closed); attempt 4 begins when 1 more node is here "
        "(costs no restart)");
  after.missing = 0;
  after.pause = 2s;
  CHECK(incident_line(lost, after).find("begins in 2 s (") != std::string::npos);
}

TEST_CASE("A hang's verdict has all that is to be said") {
  Incident hang = failure();
  hang.reason = "rank 3 on node1 hung: ranks 0-2 wait in all_reduce #17";
  hang.records[0].hung = true;
  hang.records[0].message = "hung: ranks 0-2 wait in all_reduce #17";
  CHECK(incident_line(hang, restart())
            .starts_with("rank 3 on node1 hung: ranks 0-2 wait in all_reduce #17; attempt 1"));
}

TEST_CASE("Whatever a worker says, the line is one, printable and bounded") {
  Incident odd = failure();
  odd.records[0].stderr_tail = "\x1b[31mred\ttab\x7f";
  CHECK(incident_line(odd, restart()).find(": ?[31mred?tab?; ") != std::string::npos);
  std::string two_byte_letters;
  for (int i = 0; i < 5000; ++i) {
    two_byte_letters += "\xc3\xa4";
  }
  odd.records[0].stderr_tail = "x" + two_byte_letters;
  odd.reason = two_byte_letters;
  const std::string line = incident_line(odd, restart());
  CHECK(line.size() <= kIncidentLineBytesMax);
  CHECK(line.ends_with("attempt 1 begins (restart 1 of at most 3), from epoch 40"));
  CHECK(line.find("\xc3.") == std::string::npos);  // no half letter
  CHECK(incident_line(failure(), ending(two_byte_letters)).size() <= kIncidentLineBytesMax);
}

TEST_CASE("Two nodes are told of a failure: where it happened, and the coordinator's") {
  Story s(fixed(3, 1));
  NodeDescription host = s.description("n0");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  const NodeId b = s.join("n1");
  const NodeId c = s.join("n2");
  s.failed(b, exited(1, 7));
  CHECK(s.all<TellIncident>().empty());  // it may be a victim
  s.stopped(a);
  s.stopped(c);
  TrainingProgress saved;
  saved.saved = SnapshotNumber::epoch(12);
  saved.saved_after = 1s;
  saved.steps_at_save = 100;
  s.stopped(b, {exited(1, 7)}, saved);
  TellIncident told = s.only<TellIncident>();
  CHECK(told.nodes == std::vector{a, b});
  CHECK(told.text ==
        "rank 1 on n1 exited with code 7; attempt 1 begins (restart 1 of at most 1), from epoch "
        "12");
  // Of the coordinator's own node: that one alone. The budget is spent now.
  s.failed(a, exited(0, 8));
  for (const NodeId id : {a, b, c}) {
    s.stopped(id);
  }
  told = s.only<TellIncident>();
  CHECK(told.nodes == std::vector{a});
  CHECK(told.text == "rank 0 on n0 exited with code 8; the only restart is spent; the job ends");
  const auto place = [&](auto is) {
    return std::find_if(s.commands.begin(), s.commands.end(), is) - s.commands.begin();
  };
  CHECK(place([](const Command& one) { return std::holds_alternative<TellIncident>(one); }) <
        place([](const Command& one) { return std::holds_alternative<FinishJob>(one); }));
}

TEST_CASE(
    "Of a lost node the coordinator's is told, and growth and an end on request are no failures") {
  Story s(elastic(1, 2));
  NodeDescription host = s.description("n0");
  host.hosts_coordinator = true;
  const NodeId a = s.join(host);
  NodeId b = s.join("n1");
  s.lose(b);
  s.stopped(a);
  CHECK(s.only<TellIncident>().nodes == std::vector{a});
  CHECK(s.only<TellIncident>().text ==
        "node n1 was lost (its connection closed); attempt 1 begins (costs no restart)");
  b = s.join("n1");
  REQUIRE(s.state() == JobState::stopping);
  s.stopped(a);
  REQUIRE(s.state() == JobState::running);
  CHECK(s.all<TellIncident>().empty());
  s.apply(StopRequested{a, SIGTERM, StopWish::preempt});
  s.failed(b, exited(1, 1));
  s.stopped(a);
  s.stopped(b);
  REQUIRE(s.all<FinishJob>().size() == 1);
  CHECK(s.all<TellIncident>().empty());
}
