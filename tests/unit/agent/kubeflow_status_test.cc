// What Kubeflow's status server is told, by its guide.
#include "agent/operations/kubeflow_status.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace ddprun {
namespace {

/// Of a node that runs ranks 1 and 0; rank 0 has told that.
JobSnapshot job_with(const WorkerSnapshot& told) {
  JobSnapshot job;
  job.world_size = 8;
  job.time = std::chrono::sys_days(std::chrono::year(2026) / 6 / 12);
  WorkerSnapshot other;
  other.rank = 1;
  other.steps = 99;
  job.workers = {other, told};
  return job;
}

nlohmann::json status_of(const WorkerSnapshot& told) {
  const auto status = kubeflow_status(job_with(told));
  REQUIRE(status);
  return nlohmann::json::parse(*status).at("trainerStatus");
}

}  // namespace

TEST_CASE("Kubeflow is told how far rank 0 is, and what it has told") {
  WorkerSnapshot told;
  told.steps = 20;
  told.run_step = 450;
  told.run_steps = 1'000;
  told.steps_per_second = 2.0;
  told.epoch = 3;
  told.loss = 0.23471;
  const auto status = status_of(told);
  CHECK(status.at("progressPercentage") == 45);
  CHECK(status.at("estimatedRemainingSeconds") == 275);
  CHECK(status.at("lastUpdatedTime") == "2026-06-12T00:00:00.000Z");
  CHECK(status.at("metrics") ==
        nlohmann::json::parse(R"([{"name": "step", "value": "450"}, {"name": "epoch", "value": "3"},
          {"name": "loss", "value": "0.23471"}, {"name": "steps_per_second", "value": "2"},
          {"name": "world_size", "value": "8"}])"));
}

TEST_CASE("A run is at 100 % once its rank 0 has ended") {
  WorkerSnapshot told;
  told.steps = 1'000;
  told.run_step = 1'001;
  told.run_steps = 1'000;
  CHECK(status_of(told).at("progressPercentage") == 99);
  told.exit = ExitStatus{};
  CHECK(status_of(told).at("progressPercentage") == 100);
  CHECK_FALSE(status_of(told).contains("estimatedRemainingSeconds"));
}

TEST_CASE("A run that does not say how long it is has no percentage") {
  WorkerSnapshot told;
  told.steps = 7;
  const auto status = status_of(told);
  CHECK_FALSE(status.contains("progressPercentage"));
  CHECK(status.at("metrics").at(0) == nlohmann::json{{"name", "step_of_attempt"}, {"value", "7"}});
}

TEST_CASE("Only who runs rank 0 tells, and not before its first step") {
  CHECK_FALSE(kubeflow_status(JobSnapshot()));
  CHECK_FALSE(kubeflow_status(job_with({})));
  WorkerSnapshot told;
  told.steps = 1;
  told.rank = 2;
  CHECK_FALSE(kubeflow_status(job_with(told)));
}

TEST_CASE("A status server is named by a URL of https") {
  const auto url = parse_status_url("https://manager.kubeflow:8082/apis/v1/status?a=b");
  REQUIRE(url.has_value());
  CHECK(url->server == Endpoint{"manager.kubeflow", 8'082});
  CHECK(url->path == "/apis/v1/status?a=b");
  CHECK(parse_status_url("https://[::1]").value().server == Endpoint{"::1", 443});
  CHECK(parse_status_url("https://a").value().path == "/");
  for (const char* bad : {"", "http://a/", "https://", "https:///x", "https://a:b/",
                          "https://a/b c", "https://a/\r\nX: y"}) {
    CAPTURE(bad);
    CHECK(parse_status_url(bad).has_error());
  }
}

}  // namespace ddprun
