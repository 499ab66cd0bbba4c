#include "launcher/scheduler_defaults.h"

#include <catch2/catch.hpp>

#include "tests/unit/launcher/resolve_words.h"
#include "tests/unit/launcher/scheduler/scheduler_variables.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

Launch launch(const std::string& line, const Variables& variables, const Machine& machine = {}) {
  auto result = resolved(line + " p", variables, machine);
  if (!result) {
    FAIL(result.error().sentence());
  }
  return *std::move(result);
}

std::string refusal(const std::string& line, const Variables& variables,
                    const Machine& machine = {}) {
  const auto result = resolved(line + " p", variables, machine);
  return result ? "it is taken" : result.error().sentence();
}

/// The nodes, where they meet, under which name.
std::string text_of(const Launch& launch) {
  const JobSpec& job = launch.job;
  return std::to_string(job.min_nodes) + ":" + std::to_string(job.max_nodes) + " at " +
         to_text(job.endpoint) + " for " + job.job_id;
}

bool is_same(const Launch& a, const Launch& b) {
  return text_of(a) == text_of(b) && a.job.backend == b.job.backend &&
         a.job.node_rank == b.job.node_rank && a.job.order_hint == b.job.order_hint &&
         a.job.local_world_size == b.job.local_world_size && a.notices.size() == b.notices.size();
}

Machine with_gpus(int gpus) {
  Machine machine;
  machine.gpus = gpus;
  return machine;
}

}  // namespace

TEST_CASE("In a step of srun no size, endpoint, id or rank is needed", "[launcher]") {
  const Launch second = launch("", slurm_task(1));
  CHECK(text_of(second) == "4:4 at n1:23456 for 123456.0");
  CHECK(second.job.backend == RendezvousBackend::c10d);
  CHECK(second.job.order_hint == 1);
  CHECK(second.job.local_world_size == 1);
}

TEST_CASE("What was taken is one line, a warning on the first node and for INFO on the others",
          "[launcher]") {
  const Launch first = launch("", slurm_task(0), with_gpus(8));
  REQUIRE(first.notices.size() == 1);
  CHECK(first.notices[0].text ==
        "Slurm job: --nnodes 4 (SLURM_STEP_NUM_TASKS), --rdzv-endpoint n1:23456 "
        "(SLURM_STEP_NODELIST), --rdzv-id 123456.0 (SLURM_JOB_ID, SLURM_STEP_ID), "
        "--nproc-per-node 8 (visible GPUs); --no-scheduler turns this off");
  CHECK(first.notices[0].level == LogLevel::warning);
  CHECK(launch("", slurm_task(1)).notices.at(0).level == LogLevel::info);
}

TEST_CASE("What is given stays, each value for itself, by option or by variable", "[launcher]") {
  CHECK(text_of(launch("--nnodes 2:3", slurm_task(1))) == "2:3 at n1:23456 for 123456.0");
  CHECK(text_of(launch("--rdzv-endpoint n9:7", slurm_task(1))) == "4:4 at n9:7 for none");
  CHECK(text_of(launch("--rdzv-id mine", slurm_task(1))) == "4:4 at n1:23456 for mine");
  CHECK(text_of(launch("", joined(slurm_task(1), {{"PET_NNODES", "3"}, {"PET_RDZV_ID", "x"}}))) ==
        "3:3 at n1:23456 for x");
  CHECK(launch("--nproc-per-node 2", slurm_task(1), with_gpus(8)).job.local_world_size == 2);
  CHECK(launch("--node-rank 3", slurm_task(1)).job.node_rank == 3);
  // With a master, or its port, the ranks are fixed as ever; the scheduler has them.
  const Launch fixed = launch("--master-addr n1", slurm_task(2));
  CHECK(text_of(fixed) == "4:4 at n1:29500 for none");
  CHECK(fixed.job.backend == RendezvousBackend::static_ranks);
  CHECK(fixed.job.node_rank == 2);
}

TEST_CASE("A command line that says all is taken as without a scheduler", "[launcher]") {
  for (const std::string line :
       {"--nnodes 2 --nproc-per-node 1 --rdzv-id 7 --rdzv-endpoint n1:29400",
        "--nnodes 1 --nproc-per-node 2", "--standalone", "--standalone --nproc-per-node 2",
        // Each node may be a step of its own, or not be in the job: no name but the default is
        // theirs.
        "--nnodes 2 --nproc-per-node 1 --rdzv-endpoint n1:29400",
        "--nnodes 2 --nproc-per-node 1 --master-addr n1 --master-port 7 --node-rank 1",
        "--nnodes 2 --nproc-per-node 1 --rdzv-id 7 --master-addr n1 --node-rank 1"}) {
    INFO(line);
    Variables rank_only{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}};
    CHECK(is_same(launch(line, slurm_task(1), with_gpus(8)), launch(line, rank_only)));
  }
}

TEST_CASE("With --no-scheduler nothing is taken, not even the order of the nodes", "[launcher]") {
  for (const std::string line : {"--no-scheduler", "--no-scheduler --nnodes 4 --master-addr n1",
                                 "--no-scheduler --nnodes 4 --rdzv-endpoint n1"}) {
    INFO(line);
    CHECK(is_same(launch(line, slurm_task(1), with_gpus(8)), launch(line, {})));
  }
  CHECK(is_same(launch("", joined(slurm_task(1), {{"PET_NO_SCHEDULER", "1"}})), launch("", {})));
}

TEST_CASE("In the script of a job ddprun trains on this node alone and says why", "[launcher]") {
  const Launch alone = launch("", kBatch, with_gpus(4));
  CHECK(alone.job.max_nodes == 1);
  CHECK(alone.job.job_id == "fresh-id");
  CHECK(alone.job.local_world_size == 4);
  REQUIRE(alone.notices.size() == 2);
  CHECK(alone.notices[1].level == LogLevel::warning);
  CHECK(alone.notices[1].text.find("srun did not start ddprun") != std::string::npos);
  // Nothing to say to one who knows, and nothing taken from a node that the job does not use.
  CHECK(launch("--nnodes 1", kBatch).notices.empty());
  CHECK(launch("", kSalloc, with_gpus(4)).job.local_world_size == 1);
}

TEST_CASE("A job of one node takes only its GPUs", "[launcher]") {
  const Variables one = joined(slurm_task(0), {{"SLURM_STEP_NUM_TASKS", "1"},
                                               {"SLURM_STEP_NUM_NODES", "1"},
                                               {"SLURM_STEP_NODELIST", "n1"}});
  CHECK(launch("", one).notices.empty());
  CHECK(launch("", one).job.job_id == "fresh-id");
  CHECK(launch("", one, with_gpus(2)).job.local_world_size == 2);
  const Variables counted = joined(one, {{"SLURM_GPUS_ON_NODE", "3"}});
  CHECK(launch("", counted).job.local_world_size == 3);
  CHECK(launch("", counted, with_gpus(2)).job.local_world_size == 2);
  CHECK(launch("", counted, with_gpus(8)).job.local_world_size == 3);
}

TEST_CASE("Agents that share a host share its GPUs only where the scheduler shared them out",
          "[launcher]") {
  const Variables shared = joined(slurm_task(0), {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                  {"SLURM_STEP_NUM_NODES", "2"},
                                                  {"SLURM_STEP_NODELIST", "n[1-2]"},
                                                  {"SLURM_GPUS_ON_NODE", "4"}});
  CHECK(refusal("", shared, with_gpus(4)) ==
        "Slurm job: 2 agents on this host would each use all of its 4 GPUs; start one on each host "
        "(srun --ntasks-per-node=1, mpirun --map-by ppr:1:node), or give --nproc-per-node");
  CHECK(launch("", shared, with_gpus(2)).job.local_world_size == 2);
  CHECK(launch("--nproc-per-node 1", shared, with_gpus(4)).job.local_world_size == 1);
  CHECK(launch("", shared).job.local_world_size == 1);
}

TEST_CASE("A loopback address where several nodes should meet is refused (R30)", "[launcher]") {
  const std::string world =
      "' is this node's own loopback address, but the Slurm job has several nodes: every node "
      "would be a world of its own; name the first node by an address that the others reach";
  for (const std::string host :
       {"localhost", "localhost:29400", "127.0.0.1:7", "[::1]:7", "0.0.0.0:7", "[::]:7"}) {
    CHECK(refusal("--rdzv-endpoint " + host, slurm_task(1)) == "--rdzv-endpoint: '" + host + world);
    CHECK(refusal("--rdzv-endpoint n1," + host, slurm_task(0)) ==
          "--rdzv-endpoint: '" + host + world);
  }
  CHECK(refusal("--master-port 7", slurm_task(1)) == "--master-addr: '127.0.0.1" + world);
  CHECK(refusal("--nnodes 2 --rdzv-endpoint localhost", slurm_task(1)).find(world) !=
        std::string::npos);
  // One node of the job may test by itself.
  CHECK(launch("--nnodes 1 --rdzv-endpoint localhost", slurm_task(1)).job.max_nodes == 1);
  CHECK(launch("--nnodes 2 --rdzv-endpoint localhost", kBatch).job.max_nodes == 2);
}

TEST_CASE("A name that stands for loopback is refused but on the node that has it (R30)",
          "[launcher]") {
  Machine machine;
  machine.loopback_names = {"n1"};
  const std::string refused = refusal("", slurm_task(1), machine);
  CHECK(refused.find("SLURM_STEP_NODELIST: 'n1:23456' is this node's own loopback") == 0);
  // Debian's hosts have their own name at 127.0.1.1.
  CHECK(launch("", slurm_task(0), machine).job.max_nodes == 4);
  machine.name = "n1.site";
  CHECK(launch("", slurm_task(1), machine).job.max_nodes == 4);
  // What a user writes is no node's own name, on the first one neither.
  machine.loopback_names = {"LOCALHOST"};
  CHECK(refusal("--rdzv-endpoint LOCALHOST:7", slurm_task(0), machine).find("'LOCALHOST:7' is") !=
        std::string::npos);
}

TEST_CASE("What is missing is an error only where it is needed", "[launcher]") {
  const Variables odd = joined(slurm_task(1), {{"SLURM_STEP_NODELIST", "n[1-"}});
  CHECK(refusal("", odd).find("SLURM_STEP_NODELIST: 'n[1-' is not a list") == 0);
  CHECK(launch("--rdzv-endpoint n1", odd).job.max_nodes == 4);
  CHECK(launch("--nnodes 1", odd).job.max_nodes == 1);
  CHECK(refusal("", open_mpi(1, 4, 1)).find("OMPI_COMM_WORLD_SIZE: mpirun") == 0);
  CHECK(text_of(launch("--rdzv-endpoint n1:7", open_mpi(1, 4, 1))) == "4:4 at n1:7 for none");
}

TEST_CASE("A value of a scheduler that is refused is called by its variable", "[launcher]") {
  CHECK(refusal("", joined(slurm_task(0), {{"SLURM_STEP_NUM_TASKS", "999999"}})) ==
        "SLURM_STEP_NUM_TASKS: '999999' is above 262144 nodes; give a smaller maximum");
}

TEST_CASE("A pod of an Indexed Job takes the rest once --nnodes is given", "[launcher]") {
  Machine pod;
  pod.name = "ddp-1.workers.default.svc";
  const Variables index{{"JOB_COMPLETION_INDEX", "1"}};
  const Launch alone = launch("", index, pod);
  CHECK(alone.job.max_nodes == 1);
  REQUIRE(alone.notices.size() == 1);
  CHECK(alone.notices[0].level == LogLevel::warning);
  const Launch job = launch("--nnodes 2", index, pod);
  CHECK(text_of(job) == "2:2 at ddp-0.workers.default.svc:29400 for ddp");
  CHECK(job.job.order_hint == 1);
  CHECK(launch("--nnodes 1", index, pod).notices.empty());
}

TEST_CASE("A pod that meets by a Lease takes the Job's name alone", "[launcher]") {
  Machine pod;
  pod.name = "ddp-1";  // without a service
  const Variables index{{"JOB_COMPLETION_INDEX", "1"},
                        {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                        {"KUBERNETES_SERVICE_PORT", "443"}};
  for (const char* nodes : {"--nnodes 1:2", "--nnodes 1"}) {
    const Launch job = launch(std::string("--rdzv-backend kubernetes ") + nodes, index, pod);
    CHECK(job.job.job_id == "ddp");
    CHECK(job.job.endpoint == Endpoint{"10.96.0.1", 443});
    CHECK(job.job.order_hint == 1);
  }
}

TEST_CASE("PBS and LSF give nodes, endpoint, id and order as Slurm does", "[launcher]") {
  CHECK(text_of(launch("", pbs(1, 2))) == "2:2 at n1:25422 for 15422.login2");
  CHECK(launch("", pbs(1, 2)).job.order_hint == 1);
  const Launch lsf = launch("", joined(kLsf, {{"LSF_PM_TASKID", "2"}}));
  CHECK(text_of(lsf) == "3:3 at hostA:28301 for 8301");
  CHECK(lsf.job.order_hint == 1);
}
