// What --event-log and the summary say of a job is what its workers saw themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/e2e/cluster.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/event_schema.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests
using nlohmann::json;

/// Reports travel, and this machine may have other things to do.
constexpr double kSlackMs = 700;

/// All lines; each is held against docs/events.md.
std::vector<json> events_in(const std::string& path) {
  static const EventSchema schema(read_file(DDPRUN_EVENTS_PAGE));
  std::istringstream in(read_file(path));
  std::vector<json> found;
  for (std::string line; std::getline(in, line);) {
    for (const std::string& fault : schema.faults(line)) {
      FAIL_CHECK(fault);
    }
    found.push_back(json::parse(line));
  }
  return found;
}

std::vector<json> all(const std::vector<json>& events, const std::string& name) {
  std::vector<json> found;
  std::copy_if(events.begin(), events.end(), std::back_inserter(found),
               [&](const json& one) { return one["event"] == name; });
  return found;
}

json last(const std::vector<json>& events, const std::string& name) {
  const auto found = all(events, name);
  INFO(name);
  REQUIRE_FALSE(found.empty());
  return found.back();
}

double sum(const json& event, const std::vector<const char*>& fields) {
  double total = 0;
  for (const char* field : fields) {
    INFO(field);
    REQUIRE(event[field].is_number());
    total += event[field].get<double>();
  }
  return total;
}

/// When any rank of that attempt did this, the newest of all ranks; in ms.
double stamp(const TempDir& dir, int restarts, const std::string& what) {
  double newest = 0;
  for (int rank = 0; rank < 2; ++rank) {
    std::istringstream in(
        read_file(dir.file("stamps." + std::to_string(restarts) + "." + std::to_string(rank))));
    std::string name;
    for (double at = 0; in >> name >> at;) {
      newest = name == what ? std::max(newest, at) : newest;
    }
  }
  INFO(what << " after " << restarts << " restarts");
  REQUIRE(newest > 0);
  return newest;
}

}  // namespace

TEST_CASE("A worker that is killed once is accounted for to the step and to the millisecond") {
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  // 200 steps in 10 epochs; at step 130 the newest snapshot has 120.
  Cluster cluster({.nodes = 2,
                   .workers_per_node = 1,
                   .options = {"--max-restarts", "3", "--event-log", log},
                   .program = {DDPRUN_STEPPING_WORKER, dir.path().string(), "20", "10", "130"}});
  cluster.start_all();
  REQUIRE(cluster.exit_codes() == std::vector{0, 0});
  INFO(cluster.report());
  const auto events = events_in(log);
  INFO(read_file(log));
  CHECK(events.front()["event"] == "job_began");
  CHECK(events.back()["event"] == "job_over");
  CHECK(all(events, "node_joined").size() == 2);
  CHECK(all(events, "attempt_assigned").size() == 2);
  CHECK(last(events, "worker_failed")["rank"] == 1);

  const json closed = last(events, "incident_closed");
  CHECK(sum(closed, {"detect_ms", "stop_ms", "rendezvous_ms", "spawn_ms", "first_step_ms"}) ==
        Approx(closed["downtime_ms"].get<double>()).epsilon(1e-9));
  CHECK(closed["replayed_steps"] == 10);
  CHECK(closed["resumed_epoch"] == 5);
  const double death = stamp(dir, 0, "death");
  const double saved = stamp(dir, 0, "saved");
  const double back = stamp(dir, 1, "first_step");
  // A report is dated late by its travel, an assignment early: that bounds both from one side.
  const auto downtime = closed["downtime_ms"].get<double>();
  CHECK(downtime < back - death + 1);
  CHECK(downtime > back - death - kSlackMs);
  const auto replayed = closed["replayed_ms"].get<double>();
  CHECK(replayed > death - saved - 1);
  CHECK(replayed < death - saved + kSlackMs);

  const json ledger = last(events, "ledger");
  CHECK(ledger["steps"] == 200);
  CHECK(ledger["replayed_steps"] == 10);
  CHECK(ledger["incidents"] == 1);
  CHECK(ledger["attempts"] == 2);
  CHECK(sum(ledger, {"startup_ms", "productive_ms", "replayed_ms", "downtime_ms"}) ==
        Approx(ledger["wall_ms"].get<double>()).margin(0.001));
  const double trained = saved - stamp(dir, 0, "first_step") + stamp(dir, 1, "end") - back;
  CHECK(ledger["productive_ms"].get<double>() == Approx(trained).margin(kSlackMs));
  CHECK(ledger["ratio"].get<double>() > 0.1);
  CHECK(ledger["ratio"].get<double>() < 0.9);
  for (int node = 0; node < 2; ++node) {
    CHECK(cluster.node(node).err().find("), 10 steps (") != std::string::npos);
    CHECK(cluster.node(node).err().find("\n  effective training time ") != std::string::npos);
  }
}

TEST_CASE("How a job does can be read while it runs") {
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  Cluster cluster({.nodes = 1,
                   .workers_per_node = 2,
                   .options = {"--max-restarts", "3", "--event-log", log},
                   .program = {DDPRUN_STEPPING_WORKER, dir.path().string(), "20", "1000", "30"}});
  cluster.start_all();
  INFO(cluster.report());
  REQUIRE(wait_for_text(log, "\"event\":\"ledger\""));
  const json ledger = last(parsed_lines(read_file(log)), "ledger");
  CHECK(ledger["incidents"] == 1);
  CHECK(ledger["replayed_steps"] == 10);
  REQUIRE(wait_for_text(log, "\"event\":\"snapshot_saved\",", 2));
  cluster.node(0).signal(SIGTERM);
  CHECK(cluster.exit_codes() == std::vector{75});
  const auto events = events_in(log);
  CHECK(last(events, "stop_requested")["signal"] == "SIGTERM");
  CHECK(last(events, "job_over")["verdict"] == "preempted");
}

TEST_CASE("After a failover the successor goes on with the event log and the accounts") {
  if (no_namespaces()) {
    return;
  }
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "2:3", "--heartbeat-timeout", "3", "--rdzv-conf",
                               "last_call_timeout=1", "--event-log", log},
                   .program = shell("echo world=$WORLD_SIZE; while [ ! -e " + dir.file("end") +
                                    " ]; do sleep 0.02; done"),
                   .namespaces = true});
  cluster.start_all();
  for (int node = 0; node < 3; ++node) {
    REQUIRE(cluster.node(node).wait_for_out("world=3"));
  }
  ::kill(cluster.node(0).pid(), SIGKILL);
  INFO(cluster.report());
  CHECK(cluster.node(1).wait_for_out("world=2"));
  CHECK(cluster.node(2).wait_for_out("world=2"));
  REQUIRE(wait_for_text(log, "\"event\":\"incident_closed\""));
  std::ofstream(dir.file("end")) << "now";
  CHECK(cluster.node(1).exit_code() == 0);
  CHECK(cluster.node(2).exit_code() == 0);
  const auto events = events_in(log);
  const json changed = last(events, "coordinator_changed");
  CHECK(changed["node"] != "node0");
  CHECK(changed["term"].get<int>() > events.front()["term"].get<int>());
  const json closed = last(events, "incident_closed");
  CHECK(closed["kind"] == "coordinator_lost");
  CHECK(sum(closed, {"detect_ms", "stop_ms", "rendezvous_ms", "spawn_ms"}) ==
        Approx(closed["downtime_ms"].get<double>()).epsilon(1e-9));
  const json ledger = last(events, "ledger");
  // The first coordinator's time is in it: the last call alone took a second.
  CHECK(ledger["startup_ms"].get<double>() > 0);
  CHECK(ledger["wall_ms"].get<double>() > closed["downtime_ms"].get<double>());
  CHECK(ledger["attempts"] == 2);
}

TEST_CASE("An event log that cannot be written is an error at the start, and a warning later") {
  const TempDir dir;
  Cluster never({.nodes = 1,
                 .workers_per_node = 1,
                 .options = {"--event-log", dir.file("none/events.jsonl")},
                 .program = shell("echo ran")});
  never.start_all();
  CHECK(never.exit_codes() == std::vector{1});
  CHECK(never.node(0).err() == "ddprun: --event-log '" + dir.file("none/events.jsonl") +
                                   "': cannot write the event log: No such file or directory; "
                                   "name a file in a directory that can be written\n");
  CHECK(never.node(0).out().empty());
  Cluster full({.nodes = 1,
                .workers_per_node = 1,
                .options = {"--event-log", "/dev/full"},
                .program = shell("echo ran")});
  full.start_all();
  CHECK(full.exit_codes() == std::vector{0});
  CHECK(full.node(0).out() == "ran\n");
  const std::string warning = "cannot write the event log '/dev/full' (No space left on device)";
  const std::string err = full.node(0).err();
  CHECK(err.find(warning) != std::string::npos);
  CHECK(err.find(warning) == err.rfind(warning));
}

}  // namespace ddprun::test
