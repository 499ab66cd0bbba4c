// Everything that can be told is told here once, and held against docs/events.md.
#include "rendezvous/control/event_json.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <utility>

#include "tests/support/event_schema.h"
#include "tests/support/temp_dir.h"

using namespace ddprun;
using namespace std::chrono_literals;
using ddprun::test::EventSchema;
using nlohmann::json;

namespace {

const EventSchema& schema() {
  static const EventSchema the_schema(test::read_file(DDPRUN_EVENTS_PAGE));
  return the_schema;
}

/// A state machine and what EventJson makes of it.
class Told {
 public:
  explicit Told(MembershipOptions options) : options_(options), membership_(options, 0ns) {
    EventJson::Job job{options.job_id, "n1", options.min_nodes, options.max_nodes,
                       options.max_restarts};
    if (options.inheritance) {
      job.succeeds = options.inheritance->why;
    }
    event_json_.emplace(job, membership_);
    keep(event_json_->begin(wall(), now_, membership_));
  }

  void wait(std::chrono::nanoseconds time) { now_ += time; }
  void apply(const Event& event) {
    const auto commands = membership_.apply(now_, event);
    keep(event_json_->observe(wall(), now_, event, commands, membership_));
    people_ += event_json_->for_people();
  }
  NodeDescription description(const std::string& host, int workers = 1) const {
    NodeDescription d;
    d.host_name = host;
    d.local_world_size = workers;
    d.role = "default";
    d.job_id = options_.job_id;
    d.min_nodes = options_.min_nodes;
    d.max_nodes = options_.max_nodes;
    d.max_restarts = options_.max_restarts;
    d.program = "train";
    return d;
  }
  NodeId join(const std::string& host, int workers = 1, bool witness = false) {
    NodeDescription d = description(host, workers);
    d.witness = witness;
    return join(d);
  }
  NodeId join(NodeDescription description) {
    const NodeId id{++last_id_};
    apply(NodeJoined{id, std::move(description), id == NodeId{1} ? "" : "10.0.0.2"});
    return id;
  }
  void start(NodeId id) { apply(WorkersStarted{id, *membership_.attempt()}); }
  void progress(NodeId id, TrainingProgress told) {
    told.told = true;
    apply(WorkersProgress{id, *membership_.attempt(), told});
  }
  void fail(NodeId id, int rank) {
    FailureRecord record;
    record.rank = rank;
    record.exit = {ExitStatus::Kind::signalled, 9};
    record.message = "killed \xff";
    apply(WorkerFailed{id, *membership_.attempt(), record});
  }
  void stop(NodeId id) { apply(WorkersStopped{id, *membership_.attempt(), {}, 0, {}}); }
  void tell_ledger() { keep({event_json_->ledger(wall(), now_, membership_)}); }
  void resign() { keep({event_json_->resigned(wall(), membership_, "it was cut off")}); }

  Membership& job() { return membership_; }
  [[nodiscard]] const std::string& people() const { return people_; }
  /// Since the last call.
  std::vector<json> take() { return std::exchange(lines_, {}); }
  /// The only one of this kind since the last call of take().
  json only(const std::string& event) {
    std::vector<json> found;
    for (const json& line : lines_) {
      if (line["event"] == event) {
        found.push_back(line);
      }
    }
    INFO(event);
    REQUIRE(found.size() == 1);
    return found.front();
  }
  int count(const std::string& event) const {
    return static_cast<int>(std::count_if(
        lines_.begin(), lines_.end(), [&](const json& line) { return line["event"] == event; }));
  }

 private:
  [[nodiscard]] EventJson::WallTime wall() const {
    return EventJson::WallTime(1'700'000'000'123ms) +
           std::chrono::floor<std::chrono::milliseconds>(now_);
  }
  void keep(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      for (const std::string& fault : schema().faults(line)) {
        FAIL_CHECK(fault << "\n" << line);
      }
      lines_.push_back(json::parse(line));
    }
  }

  MembershipOptions options_;
  Membership membership_;
  std::optional<EventJson> event_json_;
  std::chrono::nanoseconds now_{};
  std::uint64_t last_id_ = 0;
  std::vector<json> lines_;
  std::string people_;
};

TrainingProgress first_step(std::chrono::nanoseconds after, std::int64_t steps) {
  TrainingProgress told;
  told.first_step_after = after;
  told.steps = steps;
  return told;
}

TrainingProgress saved(std::int64_t epoch, std::chrono::nanoseconds after, std::int64_t steps) {
  TrainingProgress told;
  told.saved = SnapshotNumber::epoch(epoch);
  told.saved_after = after;
  told.steps = told.steps_at_save = steps;
  return told;
}

}  // namespace

TEST_CASE("A job is told from its beginning to its end") {
  Told told({"job", 2, 2, 3, 600s, 30s});
  const json began = told.only("job_began");
  CHECK(began["schema"] == kEventSchema);
  CHECK(began["time"] == "2023-11-14T22:13:20.123Z");
  CHECK(began["attempt"] == nullptr);
  CHECK(began["term"] == 1);
  const NodeId a = told.join("n1", 2);
  CHECK(told.only("node_joined")["address"] == nullptr);
  told.wait(1s);
  const NodeId b = told.join("n2", 2);
  CHECK(told.only("attempt_assigned")["nodes"] ==
        json::parse(R"([{"node":"n1","first_rank":0,"last_rank":1},
                        {"node":"n2","first_rank":2,"last_rank":3}])"));
  told.wait(2s);
  told.start(a);
  CHECK(told.count("workers_started") == 0);
  told.start(b);
  CHECK(told.only("workers_started")["after_ms"] == 2000.0);
  told.wait(3s);
  told.progress(a, first_step(4s, 1));
  CHECK(told.count("training_began") == 0);
  told.progress(b, first_step(3s, 1));
  CHECK(told.only("training_began")["after_ms"] == 4000.0);
  told.progress(b, first_step(3s, 1));  // once is enough
  CHECK(told.count("training_began") == 1);
  told.wait(4s);
  told.progress(a, saved(0, 8s, 40));
  told.progress(b, saved(0, 8s, 40));
  CHECK(told.only("snapshot_saved")["steps"] == 40);
  told.take();
  told.apply(WorkersFinished{a, AttemptNumber{0}, {}});
  told.apply(WorkersFinished{b, AttemptNumber{0}, {}});
  const json over = told.only("job_over");
  CHECK(over["verdict"] == "succeeded");
  CHECK(over["reason"] == nullptr);
  CHECK(over["exit_code"] == 0);
  const json ledger = told.only("ledger");
  CHECK(ledger["wall_ms"] == 10000.0);
  CHECK(ledger["productive_ms"] == 5000.0);
  CHECK(ledger["ratio"] == 0.5);
}

TEST_CASE("An incident is told when its attempt has ended, and broken down when the job is back") {
  Told told({"job", 1, 1, 3, 600s, 30s});
  const NodeId a = told.join("n1");
  told.start(a);
  told.wait(1s);
  told.progress(a, first_step(1s, 1));
  told.wait(9s);
  TrainingProgress last = saved(0, 6s, 50);
  last.steps = 90;
  told.progress(a, last);
  told.take();
  told.fail(a, 0);
  const json failed = told.only("worker_failed");
  CHECK(failed["signal"] == "SIGKILL");
  CHECK(failed["exit_code"] == nullptr);
  CHECK(failed["message"] == "killed \xef\xbf\xbd");
  told.wait(500ms);
  told.stop(a);
  CHECK(told.count("worker_failed") == 1);
  const json incident = told.only("incident");
  CHECK(incident["attempt"] == 0);
  CHECK(incident["kind"] == "worker_failed");
  CHECK(incident["stop_ms"] == 500.0);
  CHECK(incident["lost_steps"] == 40);
  told.start(a);
  CHECK(told.count("incident_closed") == 0);
  told.wait(2s);
  TrainingProgress again = first_step(2s, 1);
  again.resumed_from = SnapshotNumber::epoch(0);
  told.progress(a, again);
  const json closed = told.only("incident_closed");
  CHECK(closed["attempt"] == 1);
  CHECK(closed["downtime_ms"] == 2500.0);
  CHECK(closed["first_step_ms"] == 2000.0);
  CHECK(closed["replayed_steps"] == 40);
  CHECK(closed["replayed_ms"] == 4000.0);
  CHECK(told.only("ledger")["downtime_by_kind"]["worker_failed"] == 2500.0);
  CHECK(told.people() ==
        "incident 1: rank 0 on n1 was killed by SIGKILL; down detect 0, stop 500, rendezvous 0, "
        "spawn 0, first step 2000 ms, 40 steps (4.0 s) done again; effective training time 40.0 % "
        "of 12.5 s: 1 incident, 2.5 s down, 4.0 s replayed");
}

TEST_CASE("An attempt in vain closes the incident before it when the next one comes") {
  Told told({"job", 1, 1, 1, 600s, 30s});
  const NodeId a = told.join("n1");
  told.start(a);
  told.progress(a, first_step(0s, 1));
  told.fail(a, 0);
  told.stop(a);
  told.start(a);
  told.wait(3s);
  told.take();
  told.fail(a, 0);
  told.stop(a);
  const json closed = told.only("incident_closed");
  CHECK(closed["incident"] == 1);
  CHECK(closed["in_vain"] == true);
  CHECK(closed["downtime_ms"] == 3000.0);
  CHECK(told.only("incident")["incident"] == 2);
  CHECK(told.only("job_over")["exit_code"] == 1);
}

TEST_CASE("Where workers tell no steps an incident is over when they run again") {
  Told told({"job", 1, 1, 1, 600s, 30s});
  const NodeId a = told.join("n1");
  told.start(a);
  told.fail(a, 0);
  told.stop(a);
  told.wait(1s);
  told.start(a);
  CHECK(told.only("incident_closed")["first_step_ms"] == nullptr);
  CHECK(told.only("incident_closed")["replayed_steps"] == nullptr);
  CHECK(told.only("ledger")["steps_told"] == false);
  SECTION("and is told again when they turn out to tell them") {
    told.take();
    told.wait(1s);
    told.progress(a, first_step(2s, 1));
    CHECK(told.only("incident_closed")["first_step_ms"] == 1000.0);
  }
}

TEST_CASE("Who comes, waits, is turned away or lost is told") {
  Told told({"job", 1, 2, 3, 600s, 0s});
  const NodeId a = told.join("n1");
  told.apply(TimePassed{});
  CHECK(told.count("attempt_assigned") == 1);
  told.join("n2");
  told.stop(a);
  told.take();
  const NodeId c = told.join("n3");
  CHECK(told.only("node_spare")["node"] == "n3");
  told.join("w", 1, true);
  CHECK(told.count("node_spare") == 1);
  told.apply(StrangerTurnedAway{"10.0.0.9", "it does not speak ddprun's protocol"});
  CHECK(told.only("node_rejected")["node"] == nullptr);
  NodeDescription other;
  other.host_name = "n4";
  other.job_id = "other";
  told.take();
  told.join(other);
  CHECK(told.only("node_rejected")["node"] == "n4");
  CHECK(told.count("node_joined") == 0);
  told.apply(NodeLost{c, "it was silent for 3 s", 3s});
  CHECK(told.only("node_lost")["silent_ms"] == 3000.0);
  told.apply(NodeLost{c, "again", 0s});
  CHECK(told.count("node_lost") == 1);
  told.apply(StopRequested{a, 15});
  CHECK(told.only("stop_requested")["signal"] == "SIGTERM");
  CHECK(told.only("stop_requested")["notice"].is_null());
}

TEST_CASE("A node that waits for a taken rank is no spare before it has that rank") {
  Told told({"job", 1, 1, 3, 600s, 0s});
  const auto ranked = [&](const std::string& host, int rank) {
    NodeDescription node = told.description(host);
    node.node_rank = rank;
    return told.join(node);
  };
  const NodeId a = ranked("n1", 0);
  const NodeId b = ranked("n2", 1);
  CHECK(told.only("node_spare")["node"] == "n2");
  told.take();
  ranked("n3", 1);
  CHECK(told.only("node_joined")["node"] == "n3");
  CHECK(told.count("node_spare") == 0);
  // The next attempt names the spare, and not the node that waits for its rank.
  told.start(a);
  told.fail(a, 0);
  told.stop(a);
  CHECK(told.only("node_spare")["node"] == "n2");
  told.take();
  told.apply(NodeLost{b, "it was silent for 3 s", 3s});
  CHECK(told.only("node_spare")["node"] == "n3");
  told.take();
  told.start(a);
  told.fail(a, 0);
  told.stop(a);
  CHECK(told.only("node_spare")["node"] == "n3");
}

TEST_CASE("What a gathering waits for is told at the pace at which people are") {
  Told told({"job", 2, 2, 3, 600s, 30s});
  told.join("n1");
  told.wait(*told.job().next_deadline());
  told.apply(TimePassed{});
  const json waiting = told.only("waiting");
  CHECK(waiting["waits_for"] == "nodes");
  CHECK(waiting["nodes_here"] == 1);
}

TEST_CASE("A successor tells of the loss that made it one, and goes on counting") {
  MembershipOptions options{"job", 1, 2, 3, 600s, 30s};
  options.self = VoterId{7};
  options.term = Term{2};
  TakeoverState inherited;
  inherited.why = "its host is gone";
  inherited.so_far.attempts = 1;
  inherited.so_far.incidents.resize(1);
  inherited.lost_for = 0s;
  options.inheritance = inherited;
  Told told(options);
  CHECK(told.only("coordinator_changed")["why"] == "its host is gone");
  const json incident = told.only("incident");
  CHECK(incident["incident"] == 2);
  CHECK(incident["kind"] == "coordinator_lost");
  CHECK(incident["term"] == 2);
  told.resign();
  CHECK(told.only("coordinator_resigned")["why"] == "it was cut off");
  told.tell_ledger();
  CHECK(told.only("ledger")["incidents"] == 2);
}

TEST_CASE("Incidents have their lines after a voter brought a shorter history") {
  MembershipOptions options{"job", 2, 2, 3, 600s, 30s};
  options.self = VoterId{1};
  Told told(options);
  NodeDescription own = told.description("n1");
  own.voter = options.self;
  told.join(own);
  const auto bring = [&](std::uint64_t voter, std::uint32_t attempt, std::size_t incidents) {
    NodeDescription node = told.description("n" + std::to_string(voter));
    node.voter = VoterId{voter};
    StateCopy copy;
    copy.replicated.coordinator = VoterId{9};
    copy.replicated.term = Term{1};
    copy.replicated.attempt = AttemptNumber{attempt};
    copy.replicated.configuration = {make_configuration(Term{1}, VoterId{9}, 1),
                                     {VoterId{2}, VoterId{3}}};
    copy.so_far.incidents.resize(incidents);
    copy.saw_close = true;
    node.copy = copy;
    node.past = Past{Term{1}, AttemptNumber{attempt}, copy.replicated.configuration.number, {}};
    return told.join(node);
  };
  const NodeId b = bring(2, 5, 3);
  CHECK(told.only("incident")["incident"] == 4);
  told.apply(NodeLost{b, "its connection closed", 0s});
  told.take();
  bring(3, 6, 1);
  CHECK(told.job().record().incidents_count() == 2);
  CHECK(told.only("incident")["incident"] == 2);
  CHECK(told.only("incident")["kind"] == "coordinator_lost");
}

TEST_CASE("A history of which no incident had room has no lines, and its count goes on") {
  MembershipOptions options{"job", 2, 2, 3, 600s, 30s};
  options.self = VoterId{1};
  Told told(options);
  NodeDescription own = told.description("n1");
  own.voter = options.self;
  told.join(own);
  NodeDescription node = told.description("n2");
  node.voter = VoterId{2};
  StateCopy copy;
  copy.replicated.coordinator = VoterId{9};
  copy.replicated.term = Term{1};
  copy.replicated.configuration = {make_configuration(Term{1}, VoterId{9}, 1),
                                   {VoterId{2}, VoterId{3}}};
  copy.replicated.ends = true;
  copy.so_far.incidents_dropped = 5;
  node.copy = copy;
  node.past = Past{Term{1}, AttemptNumber{1}, copy.replicated.configuration.number, {}};
  told.join(node);
  CHECK(told.job().record().incidents_count() == 5);
  CHECK(told.count("incident") == 0);
}

TEST_CASE("A successor of one that had decided the end tells of that end, and of no incident") {
  MembershipOptions options{"job", 1, 2, 3, 600s, 30s};
  options.self = VoterId{7};
  options.term = Term{2};
  TakeoverState inherited;
  inherited.known.ends = true;
  inherited.known.configuration = {make_configuration(Term{1}, VoterId{6}, 1), {VoterId{7}}};
  inherited.why = "its connection closed";
  inherited.so_far.attempts = 1;
  options.inheritance = inherited;
  Told told(options);
  CHECK(told.only("coordinator_changed")["why"] == "its connection closed");
  NodeDescription own = told.description("n1");
  own.voter = VoterId{7};
  own.hosts_coordinator = true;
  const NodeId node = told.join(own);
  told.apply(StateAcknowledged{node, told.job().leadership().planned().number});
  const json over = told.only("job_over");
  CHECK(over["verdict"] == "succeeded");
  CHECK(over["incidents"] == 0);
  for (const json& line : told.take()) {
    CHECK(line["event"] != "incident");
  }
}

TEST_CASE("Every event that docs/events.md names is told by somebody") {
  Told told({"job", 1, 1, 3, 600s, 30s});
  told.resign();
  const NodeId a = told.join("n1");
  const NodeId b = told.join("n2");
  const NodeId c = told.join("n3");
  told.apply(StopRequested{b, 12, StopWish::leave});
  told.apply(NodeLost{c, "its connection closed", 0s});
  told.apply(StrangerTurnedAway{"10.0.0.9", "it does not speak ddprun's protocol"});
  told.start(a);
  told.progress(a, first_step(0s, 1));
  told.progress(a, saved(0, 0s, 1));
  told.fail(a, 0);
  told.stop(a);
  told.start(a);
  told.progress(a, first_step(0s, 1));
  told.apply(StopRequested{a, 15});
  told.stop(a);
  MembershipOptions options{"job", 2, 2, 3, 600s, 30s};
  options.inheritance.emplace();
  Told successor(options);
  successor.join("n1");
  successor.wait(60s);
  successor.apply(TimePassed{});
  std::set<std::string> names;
  for (auto* one : {&told, &successor}) {
    for (const json& line : one->take()) {
      names.insert(line["event"].get<std::string>());
    }
  }
  CHECK(names == schema().events());
}

TEST_CASE("A line that is not as docs/events.md says is found out") {
  const std::string common =
      R"("time":"2023-11-14T22:13:20.123Z","job_id":"j","term":1,"attempt":null)";
  CHECK(schema().faults("{").size() == 1);
  CHECK(schema().faults(R"({"event":"unheard_of",)" + common + "}").size() == 1);
  CHECK(schema().faults(R"({"event":"node_spare",)" + common + R"(,"node":"n"})").empty());
  CHECK(schema().faults(R"({"event":"node_spare",)" + common + R"(,"node":1})").size() == 1);
  CHECK(schema().faults(R"({"event":"node_spare",)" + common + R"(})").size() == 1);
  CHECK(schema().faults(R"({"event":"node_spare",)" + common + R"(,"node":"n","x":1})").size() ==
        1);
}
