// A snapshot as JSON and as metrics. What real jobs show is in tests/e2e/operations_test.py.
#include "agent/operations/job_snapshot.h"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/operations/http_server.h"
#include "agent/operations/prometheus_text.h"
#include "agent/operations/status_json.h"
#include "agent/operations/take_snapshot.h"

using namespace ddprun;
using namespace std::chrono_literals;  // allowed: literals alone, within tests

namespace {

bool contains(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

JobSnapshot snapshot() {
  JobSnapshot shown;
  shown.job_id = "night\"ly\\\n";
  shown.host = "n1";
  shown.max_restarts = 5;
  shown.attempt = AttemptNumber{3};
  shown.world_size = 8;
  WorkerSnapshot worker;
  worker.rank = 4;
  worker.steps = 17;
  worker.loss = std::numeric_limits<double>::quiet_NaN();
  worker.phase = "training";
  shown.workers.push_back(worker);
  worker.rank = 5;
  worker.steps.reset();
  worker.loss.reset();
  worker.exit = ExitStatus{ExitStatus::Kind::signalled, 9};
  shown.workers.push_back(worker);
  return shown;
}

JobSummary story() {
  JobSummary told;
  told.attempts = 4;
  told.restarts_used = 2;
  told.incidents_dropped = 7;
  Incident incident;
  incident.reason = "rank 1 \xff failed";
  incident.parts.detect = 1'500us;
  incident.records.emplace_back();
  told.incidents.push_back(incident);
  told.accounts.wall = 10s;
  told.accounts.steps_told = true;
  told.accounts.by_step.productive = 8s;
  told.accounts.saved.snapshot = SnapshotNumber::step(120);
  return told;
}

}  // namespace

TEST_CASE("what an agent does not know is null in the status, and has no sample", "[agent]") {
  const JobSnapshot shown = snapshot();
  const auto status = nlohmann::json::parse(status_json(shown));
  CHECK(status["source"] == "none");
  for (const char* const name : {"state", "nodes", "lost", "refused", "incidents", "accounts",
                                 "checkpoint", "restarts_left", "source_age_ms", "coordinator"}) {
    INFO(name);
    REQUIRE(status.contains(name));
    CHECK(status[name].is_null());
  }
  CHECK(status["workers"][0]["loss"].is_null());  // JSON has no NaN
  CHECK(status["workers"][1]["signal"] == "SIGKILL");
  CHECK(status["workers"][1]["running"] == false);
  const std::string metrics = prometheus_text(shown);
  CHECK_FALSE(contains(metrics, "incidents_total"));
  CHECK_FALSE(contains(metrics, "ddprun_nodes"));
  CHECK(contains(metrics, "ddprun_worker_loss{rank=\"4\",local_rank=\"0\"} NaN\n"));
  CHECK(contains(metrics, "ddprun_worker_up{rank=\"5\",local_rank=\"0\"} 0\n"));
  CHECK_FALSE(contains(metrics, "ddprun_worker_steps_total{rank=\"5\""));
  CHECK_FALSE(contains(metrics, "ddprun_worker_epoch"));  // nor HELP without a sample
}

TEST_CASE("a story is in the status and in the metrics, with its age", "[agent]") {
  JobSnapshot shown = snapshot();
  shown.job.source = JobView::Source::copy;
  shown.job.age = 2'500ms;
  shown.job.told = story();
  const auto status = nlohmann::json::parse(status_json(shown));
  CHECK(status["source"] == "copy");
  CHECK(status["source_age_ms"] == 2'500);
  CHECK(status["restarts_left"] == 3);
  CHECK(status["incidents_count"] == 8);
  CHECK(status["incidents"][0]["incident"] == 8);
  CHECK(status["incidents"][0]["reason"] == "rank 1 \xef\xbf\xbd failed");
  CHECK(status["incidents"][0]["downtime_ms"] == 1.5);
  CHECK(status["checkpoint"]["step"] == 120);
  CHECK(status["checkpoint"]["epoch"].is_null());
  CHECK(status["accounts"]["ratio"] == 0.8);
  CHECK(status["nodes"].is_null());
  const std::string metrics = prometheus_text(shown);
  for (const char* const line :
       {"ddprun_incidents_total 8", "ddprun_restarts_left 3", "ddprun_goodput_ratio 0.8",
        "ddprun_knowledge_age_seconds 2.5", "ddprun_last_incident_downtime_seconds 0.0015",
        "ddprun_checkpoint_number{unit=\"step\"} 120",
        "ddprun_downtime_seconds{kind=\"node_lost\"} 0"}) {
    INFO(line);
    CHECK(contains(metrics, std::string(line) + "\n"));
  }
}

TEST_CASE("a label's value is escaped as the text format asks", "[agent]") {
  CHECK(label_text("plain") == "plain");
  CHECK(label_text("a\"b\\c\nd") == "a\\\"b\\\\c\\nd");
  CHECK(label_text("tab\there\x01") == "tab here ");
  CHECK(label_text("\xff") == "\xef\xbf\xbd");
  CHECK(label_text("\xc3\xa4") == "\xc3\xa4");
  CHECK(contains(prometheus_text(snapshot()), "ddprun_info{job_id=\"night\\\"ly\\\\\\n\","));
}

TEST_CASE("a job is healthy while its agent serves and has a coordinator", "[agent]") {
  using agent::State;
  agent::Asked asked;
  CHECK(why_unhealthy(State::serving, asked, false).empty());
  CHECK(why_unhealthy(State::serving, asked, true) == "the job ends");
  CHECK_FALSE(why_unhealthy(State::fencing, asked, false).empty());
  CHECK_FALSE(why_unhealthy(State::flushing, asked, false).empty());
  CHECK_FALSE(why_unhealthy(State::dying, asked, false).empty());
  asked.stop(10);
  CHECK(why_unhealthy(State::asked, asked, false) ==
        "the job ends: SIGUSR1 was sent to this agent");
}

TEST_CASE("a node that saves for the end of the job is not healthy, whoever was asked", "[agent]") {
  using agent::State;
  agent::Asked asked;
  // A new attempt follows: a node joins, or a worker has failed.
  asked.ordered(StopHow::save, 0, "a node joined");
  asked.ordered(StopHow::now, 0, "rank 1 failed");
  CHECK(why_unhealthy(State::serving, asked, false).empty());
  asked.ordered(StopHow::preempt, 10, "SIGUSR1 was sent to n2");
  CHECK(why_unhealthy(State::serving, asked, false) == "the job ends: SIGUSR1 was sent to n2");
  asked.assigned();
  CHECK(why_unhealthy(State::serving, asked, false).empty());
}

TEST_CASE("a value of a query is found by its whole name", "[agent]") {
  CHECK(query_value("rank=3", "rank") == "3");
  CHECK(query_value("xrank=1&rank=2&rank=3", "rank") == "2");
  CHECK(query_value("rank=", "rank") == "");
  CHECK_FALSE(query_value("rank", "rank"));
  CHECK_FALSE(query_value("", "rank"));
  CHECK_FALSE(query_value("&&=&", "rank"));
}
