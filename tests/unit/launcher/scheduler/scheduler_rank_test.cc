#include "launcher/scheduler/scheduler_rank.h"

#include <catch2/catch.hpp>

#include "tests/unit/launcher/resolve_words.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

const Variables kSlurm{{"SLURM_PROCID", "3"},
                       {"SLURM_NODEID", "2"},
                       {"SLURM_STEP_NUM_TASKS", "4"},
                       {"SLURM_STEP_NUM_NODES", "4"}};

Variables with(Variables variables, const Variables& more) {
  variables.insert(more.begin(), more.end());
  return variables;
}

JobSpec job(const std::string& line, const Variables& variables) {
  const auto launch = resolved(line + " p", variables);
  if (!launch) {
    FAIL(launch.error().sentence());
  }
  return launch->job;
}

}  // namespace

TEST_CASE("Without a scheduler there is no rank of one", "[launcher]") {
  CHECK_FALSE(scheduler_rank(environment_of({})));
  CHECK_FALSE(scheduler_rank(environment_of({{"SLURM_PROCID", "x"}, {"PMI_RANK", "-1"}})));
}

TEST_CASE("The innermost launcher's rank wins (I-22)", "[launcher]") {
  const auto slurm = scheduler_rank(environment_of(kSlurm));
  REQUIRE(slurm);
  CHECK(slurm->rank == 3);
  CHECK(slurm->size == 4);
  CHECK(slurm->variable == "SLURM_PROCID");
  const Variables hydra = with(kSlurm, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  CHECK(scheduler_rank(environment_of(hydra))->rank == 1);
  const Variables open_mpi = with(hydra, {{"OMPI_COMM_WORLD_RANK", "0"}});
  CHECK(scheduler_rank(environment_of(open_mpi))->rank == 0);
  CHECK_FALSE(scheduler_rank(environment_of(open_mpi))->size);
  CHECK(scheduler_rank(environment_of({{"SLURM_PROCID", ""}, {"SLURM_NODEID", "2"}}))->rank == 2);
}

TEST_CASE("Under c10d the scheduler's rank is a wish beside --node-rank (I-22)", "[launcher]") {
  const JobSpec hinted = job("--nnodes 4 --rdzv-endpoint n1", kSlurm);
  CHECK_FALSE(hinted.node_rank);
  CHECK(hinted.order_hint == 3);
  const JobSpec given = job("--nnodes 4 --rdzv-endpoint n1 --node-rank 1", kSlurm);
  CHECK(given.node_rank == 1);
  CHECK_FALSE(job("--nnodes 4 --rdzv-endpoint n1", {}).order_hint);
}

TEST_CASE(
    "Under static it is the rank when the scheduler started as many agents as there are nodes",
    "[launcher]") {
  const JobSpec ranked = job("--nnodes 4 --master-addr n1", kSlurm);
  CHECK(ranked.node_rank == 3);
  CHECK(ranked.is_host == false);
  CHECK(job("--nnodes 4 --master-addr n1 --node-rank 0", kSlurm).node_rank == 0);
  CHECK(job("--nnodes 2 --master-addr n1", kSlurm).node_rank == 0);
  CHECK(job("--nnodes 4 --master-addr n1", {{"SLURM_PROCID", "3"}}).node_rank == 0);
}
