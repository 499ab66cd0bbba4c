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
#include "tests/e2e/event_lines.h"
#include "tests/e2e/lone_agent.h"
#include "tests/support/event_schema.h"
#include "tests/support/needs.h"
#include "tests/support/temp_dir.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;  // allowed: literals alone, within tests
using nlohmann::json;

double sum(const json& event, const std::vector<const char*>& fields) {
  double total = 0;
  for (const char* field : fields) {
    INFO(field);
    REQUIRE(event[field].is_number());
    total += event[field].get<double>();
  }
  return total;
}

/// When the ranks of that attempt did this for the last time, in ms: the first of them, the last.
struct When {
  double first;
  double last;
};
When stamp(const TempDir& dir, int restarts, const std::string& what) {
  std::vector<double> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    std::istringstream in(
        read_file(dir.file("stamps." + std::to_string(restarts) + "." + std::to_string(rank))));
    std::string name;
    double newest = 0;
    for (double at = 0; in >> name >> at;) {
      newest = name == what ? std::max(newest, at) : newest;
    }
    if (newest > 0) {
      ranks.push_back(newest);
    }
  }
  INFO(what << " after " << restarts << " restarts");
  REQUIRE_FALSE(ranks.empty());
  const auto [first, last] = std::minmax_element(ranks.begin(), ranks.end());
  return {*first, *last};
}

/// What to take from a wall clock to have the workers' clock, in ms.
double wall_to_monotonic() {
  using Ms = std::chrono::duration<double, std::milli>;
  return Ms(std::chrono::system_clock::now().time_since_epoch()).count() -
         Ms(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Every account lies between what the workers and the event log saw just before and just after
/// each instant: it does not matter how busy the machine is, and on an idle one that is exact.
void check_times(const std::vector<json>& events, const TempDir& dir) {
  const double offset = wall_to_monotonic();
  const auto logged = [&](const json& event) { return time_of(event) - offset; };
  constexpr double kCutMs = 2;  // the log's clock is cut to milliseconds
  const json closed = last_of(events, "incident_closed");
  const auto assigned = all_of(events, "attempt_assigned");
  const double death = stamp(dir, 0, "death").first;
  const double known = logged(last_of(events, "worker_failed")) + kCutMs;
  // What a node tells is dated early by the way of its assignment.
  const double way = stamp(dir, 0, "begin").last - logged(assigned.front()) + kCutMs;
  const double way_again = stamp(dir, 1, "begin").last - logged(assigned.back()) + kCutMs;

  const auto downtime = closed["downtime_ms"].get<double>();
  CHECK(downtime <= stamp(dir, 1, "first_step").last - death + 1);
  CHECK(downtime >= stamp(dir, 1, "before_first_step").last - known - way_again);
  CHECK(downtime > 300);  // the pause before the first step
  const auto replayed = closed["replayed_ms"].get<double>();
  CHECK(replayed >= death - stamp(dir, 0, "saved").last - 1);
  CHECK(replayed <= known - stamp(dir, 0, "before_saved").first + way);

  const json ledger = last_of(events, "ledger");
  CHECK(ledger["startup_ms"].get<double>() > 300);
  const double wall = logged(events.back()) - logged(events.front());
  CHECK(ledger["wall_ms"].get<double>() <= wall + way + kCutMs);
  const double trained = stamp(dir, 0, "before_saved").first - stamp(dir, 0, "first_step").last +
                         stamp(dir, 1, "end").last - stamp(dir, 1, "first_step").last;
  const double at_most = known - stamp(dir, 0, "before_first_step").first - replayed + way +
                         logged(events.back()) - stamp(dir, 1, "before_first_step").first +
                         way_again + kCutMs;
  const auto productive = ledger["productive_ms"].get<double>();
  // The node that tells of the snapshot may be dated earlier than the one that began last.
  CHECK(productive >= trained - way - 1);
  CHECK(productive <= at_most);
  CHECK(ledger["ratio"].get<double>() ==
        Approx(productive / ledger["wall_ms"].get<double>()).epsilon(1e-6));
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
  CHECK(all_of(events, "node_joined").size() == 2);
  CHECK(all_of(events, "attempt_assigned").size() == 2);
  CHECK(last_of(events, "worker_failed")["rank"] == 1);

  const json closed = last_of(events, "incident_closed");
  CHECK(sum(closed, {"detect_ms", "stop_ms", "rendezvous_ms", "spawn_ms", "first_step_ms"}) ==
        Approx(closed["downtime_ms"].get<double>()).epsilon(1e-9));
  CHECK(closed["replayed_steps"] == 10);
  CHECK(closed["resumed_epoch"] == 5);
  check_times(events, dir);

  const json ledger = last_of(events, "ledger");
  CHECK(ledger["steps"] == 200);
  CHECK(ledger["replayed_steps"] == 10);
  CHECK(ledger["incidents"] == 1);
  CHECK(ledger["attempts"] == 2);
  CHECK(sum(ledger, {"startup_ms", "productive_ms", "replayed_ms", "downtime_ms"}) ==
        Approx(ledger["wall_ms"].get<double>()).margin(0.001));
  for (int node = 0; node < 2; ++node) {
    CHECK(contains(cluster.node(node).err(), "), 10 steps ("));
    CHECK(contains(cluster.node(node).err(), "\n  effective training time "));
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
  const json ledger = last_of(parsed_lines(read_file(log)), "ledger");
  CHECK(ledger["incidents"] == 1);
  CHECK(ledger["replayed_steps"] == 10);
  REQUIRE(wait_for_text(log, "\"event\":\"snapshot_saved\",", 2));
  cluster.node(0).signal(SIGTERM);
  CHECK(cluster.exit_codes() == std::vector{75});
  const auto events = events_in(log);
  CHECK(last_of(events, "stop_requested")["signal"] == "SIGTERM");
  CHECK(last_of(events, "job_over")["verdict"] == "preempted");
}

TEST_CASE("After a failover the successor goes on with the event log and the accounts") {
  NEEDS_NAMESPACES();
  const TempDir dir;
  const std::string log = dir.file("events.jsonl");
  Cluster cluster({.nodes = 3,
                   .workers_per_node = 1,
                   .options = {"--nnodes", "2:3", "--heartbeat-timeout", "3", "--rdzv-conf",
                               "last_call_timeout=1", "--event-log", log},
                   .program = runs_until(dir.file("end")),
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
  const json changed = last_of(events, "coordinator_changed");
  CHECK(changed["node"] != "node0");
  CHECK(changed["term"].get<int>() > events.front()["term"].get<int>());
  const json closed = last_of(events, "incident_closed");
  CHECK(closed["kind"] == "coordinator_lost");
  CHECK(sum(closed, {"detect_ms", "stop_ms", "rendezvous_ms", "spawn_ms"}) ==
        Approx(closed["downtime_ms"].get<double>()).epsilon(1e-9));
  const json ledger = last_of(events, "ledger");
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
  CHECK(contains(err, warning));
  CHECK(err.find(warning) == err.rfind(warning));
}

}  // namespace ddprun::test
