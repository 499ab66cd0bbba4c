#include "launcher/scheduler/scheduler.h"

#include <catch2/catch.hpp>

#include "tests/unit/launcher/scheduler/scheduler_variables.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

const std::string kNodeFile = "n1.site\nn1.site\nn2.site\nn2.site\n\nn3.site\n";

std::optional<Allocation> find(const Variables& variables, const std::string& host = "vm",
                               std::optional<std::string> file = kNodeFile) {
  return find_allocation(
      environment_of(variables), [&](const std::string&) { return file; }, [&] { return host; });
}

Allocation found(const Variables& variables, const std::string& host = "vm",
                 const std::optional<std::string>& file = kNodeFile) {
  const auto allocation = find(variables, host, file);
  REQUIRE(allocation);
  return *allocation;
}

std::string text_of(const Allocation& allocation) {
  return (allocation.agents ? std::to_string(allocation.agents->value)
                            : allocation.agents.error().sentence()) +
         " at " +
         (allocation.meeting_host
              ? allocation.meeting_host->value + ":" + std::to_string(allocation.port)
              : allocation.meeting_host.error().sentence()) +
         " for " + allocation.job_id.value;
}

}  // namespace

TEST_CASE("Without a scheduler nothing is found", "[launcher]") {
  CHECK_FALSE(find({}));
  CHECK_FALSE(find({{"SLURM_PROCID", "1"}, {"PMI_RANK", "1"}, {"OMPI_COMM_WORLD_RANK", "1"}}));
}

TEST_CASE("A worker of ddprun or torchrun that runs ddprun is in no allocation", "[launcher]") {
  const Variables worker{{"TORCHELASTIC_RUN_ID", "17"}};
  CHECK_FALSE(find(worker));
  CHECK_FALSE(find(joined(kBatch, worker)));
  // It may be left over: a worker has submitted this job. So it is told.
  const Allocation alone = found(joined(slurm_task(0), worker));
  CHECK(alone.agents->value == 1);
  CHECK(alone.hosts == 1);
  CHECK_FALSE(alone.computes_here);
  CHECK(alone.advice ==
        "TORCHELASTIC_RUN_ID: it says that a worker of another job has started ddprun, so the "
        "program runs by itself, and not as one of the 4 agents that SLURM_STEP_NUM_TASKS tells "
        "of; unset it, or give --nnodes 1");
}

TEST_CASE("mpirun on one host: its processes meet there, under a name of that run", "[launcher]") {
  const Allocation here = found(open_mpi(1, 4, 4));
  CHECK(text_of(here) ==
        "4 at 127.0.0.1:" + std::to_string(derived_port("776994817")) + " for 776994817");
  CHECK(here.hosts == 1);
  CHECK(here.agents_here == 4);
  CHECK(text_of(found(hydra(1, 2, 2))) ==
        "2 at PMI_SIZE: mpiexec of MPICH or Intel MPI gives its processes no name for their run; "
        "give --rdzv-endpoint HOST:PORT, with a port of this run's own for ");
}

TEST_CASE("mpirun on several hosts does not tell which they are", "[launcher]") {
  const Allocation there = found(open_mpi(1, 4, 1));
  CHECK(there.hosts > 1);
  REQUIRE_FALSE(there.meeting_host.has_value());
  CHECK(there.meeting_host.error().sentence() ==
        "OMPI_COMM_WORLD_SIZE: mpirun of Open MPI started 4 agents on several hosts and does not "
        "tell which; give --rdzv-endpoint HOST:PORT, with one of these hosts");
}

TEST_CASE("mpirun inside of a batch job: its number of processes, the job's hosts", "[launcher]") {
  // Where mpirun itself runs there are the script's variables, elsewhere those of its daemon's
  // step.
  const Variables daemon = joined(slurm_task(0), {{"SLURM_STEP_NODELIST", "n[2-4]"},
                                                  {"SLURM_STEP_NUM_TASKS", "3"},
                                                  {"SLURMD_NODENAME", "n2"}});
  for (const Variables& around : {kBatch, daemon}) {
    const Allocation mpi = found(joined(around, open_mpi(1, 4, 1)));
    CHECK(text_of(mpi) ==
          "4 at n1:" + std::to_string(derived_port("123456.776994817")) + " for 123456.776994817");
    CHECK(text_of(found(joined(around, hydra(1, 4, 1)))) == "4 at n1:23456 for 123456");
  }
  CHECK(found(joined(pbs(1, 2), open_mpi(1, 4, 1))).meeting_host->value == "n1.site");
  CHECK(found(joined(kLsf, open_mpi(1, 4, 1))).meeting_host->value == "hostA");
}

TEST_CASE("srun --mpi=pmi2 sets the variables of PMI and counts as srun", "[launcher]") {
  const Variables step = joined(slurm_task(1), {{"SLURM_STEP_NODELIST", "n[2-4]"},
                                                {"SLURM_STEP_NUM_TASKS", "3"},
                                                {"SLURM_STEP_NUM_NODES", "3"},
                                                {"PMI_RANK", "1"},
                                                {"PMI_SIZE", "3"}});
  CHECK(text_of(found(step)) == "3 at n2:23456 for 123456.0");
}

// PBS and LSF are in no Debian: these variables are as their documentation has them.
TEST_CASE("pbsdsh starts one agent for each host of the node file", "[launcher]") {
  CHECK(text_of(found(pbs(1, 2))) == "3 at n1.site:25422 for 15422.login2");
  CHECK(text_of(found(pbs(0, 2))) == "3 at n1.site:25422 for 15422.login2");
  CHECK(found(pbs(1, 2)).hosts == 3);
  const Variables array = joined(pbs(2, 1), {{"PBS_JOBID", "15422[7].login2"}});
  CHECK(text_of(found(array)) == "3 at n1.site:26129 for 15422[7].login2");
}

TEST_CASE("A PBS node beyond the node file is told with both numbers", "[launcher]") {
  CHECK(found(pbs(2, 4)).agents->value == 3);
  CHECK(found(pbs(3, 5)).agents.error().sentence() ==
        "PBS_NODENUM: this is node 3 (counted from 0), but PBS_NODEFILE names 3 hosts; give "
        "--nnodes and --rdzv-endpoint HOST:PORT; or copy the file to a folder that all nodes see, "
        "and set PBS_NODEFILE to it");
}

TEST_CASE("A number of a scheduler that is none is told by its name and its value", "[launcher]") {
  CHECK_FALSE(odd_number(environment_of({})));
  for (const Variables& good : {slurm_task(1), kBatch, open_mpi(1, 4, 4), hydra(1, 2, 1), pbs(1, 2),
                                kLsf, Variables{{"SLURM_STEP_ID", "4294967290"}},
                                Variables{{"PMI_RANK", ""}, {"SLURM_PROCID", " 3 "}}}) {
    CHECK_FALSE(odd_number(environment_of(good)));
  }
  for (const char* bad : {"x", "-1", "1.5", "4294967296", "0x1", "1 2", "\x1b[1m"}) {
    const auto odd = odd_number(environment_of(joined(slurm_task(1), {{"SLURM_PROCID", bad}})));
    REQUIRE(odd);
    CHECK(odd->sentence() == "SLURM_PROCID: '" + std::string(bad) +
                                 "' is no number from 0 to 4294967295; unset it, or give "
                                 "--no-scheduler, which takes nothing from a scheduler");
  }
  CHECK(odd_number(environment_of({{"PMI_SIZE", "two"}}))->where == "PMI_SIZE");
}

TEST_CASE("The script of a PBS job is alone, and is told of pbsdsh", "[launcher]") {
  CHECK(found(pbs(0, 1)).agents->value == 1);
  CHECK(found(pbs(0, 1)).advice ==
        "PBS_NODEFILE: the job has 3 nodes, but pbsdsh did not start ddprun, so the program runs "
        "on this node alone; start ddprun by pbsdsh, or give --nnodes 1");
  CHECK(found(pbs(0, 1), "vm", "n1\nn1\n").advice.empty());
  const auto unknown = found(pbs(0, 1), "vm", std::nullopt);
  CHECK(unknown.agents->value == 1);
  CHECK(unknown.advice ==
        "PBS_NODEFILE: '/var/spool/pbs/aux/15422.login2' cannot be read on this node, and pbsdsh "
        "did not start ddprun, so the program runs on this node alone; give --nnodes 1 if that is "
        "meant");
}

TEST_CASE("A node file that another node does not see is an error with what to do", "[launcher]") {
  const std::string todo =
      "; give --nnodes and --rdzv-endpoint HOST:PORT; or copy the file to a folder that all nodes "
      "see, and set PBS_NODEFILE to it";
  CHECK(found(pbs(1, 2), "vm", std::nullopt).agents.error().sentence() ==
        "PBS_NODEFILE: '/var/spool/pbs/aux/15422.login2' cannot be read on this node" + todo);
  CHECK(found(pbs(1, 2), "vm", " \n").agents.error().sentence() ==
        "PBS_NODEFILE: '/var/spool/pbs/aux/15422.login2' names no host" + todo);
  CHECK(found(joined(pbs(1, 2), {{"PBS_NODEFILE", ""}})).agents.error().sentence() ==
        "PBS_NODEFILE: it is not set, so the nodes of this PBS job are not known" + todo);
}

TEST_CASE("blaunch starts one agent for each host of LSF", "[launcher]") {
  CHECK(text_of(found(joined(kLsf, {{"LSF_PM_TASKID", "3"}}))) == "3 at hostA:28301 for 8301");
  CHECK(text_of(found(joined(kLsf, {{"LSF_PM_TASKID", "1"}, {"LSB_JOBINDEX", "2"}}))) ==
        "3 at hostA:28503 for 8301.2");
  CHECK(found(kLsf).agents->value == 1);
  CHECK(found(kLsf).advice.find("write `blaunch -z") != std::string::npos);
  CHECK(found(joined(kLsf, {{"LSF_PM_TASKID", "4"}})).agents.error().sentence() ==
        "LSF_PM_TASKID: 4 processes for 3 hosts: ddprun runs once on each host; start it with "
        "blaunch -z and each host once");
  for (const std::string bad : {"", "hostA", "hostA x", "hostA 16 hostB"}) {
    const Variables variables = joined(kLsf, {{"LSF_PM_TASKID", "1"}, {"LSB_MCPU_HOSTS", bad}});
    CHECK(found(variables).agents.error().what ==
          "'" + bad + "' is not a list of hosts such as `a 16 b 16`");
  }
}

TEST_CASE("A pod of an Indexed Job finds the pod with index 0, and not how many there are",
          "[launcher]") {
  const Variables pod{{"JOB_COMPLETION_INDEX", "12"}};
  const Allocation job = found(pod, "ddp-12.workers.default.svc.cluster.local");
  CHECK(text_of(job) == "0 at ddp-0.workers.default.svc.cluster.local:29400 for ddp");
  CHECK(job.advice.find("give --nnodes for one job of all pods") != std::string::npos);
  CHECK_FALSE(found(pod, "ddp-12").meeting_host.has_value());
  CHECK(found(pod, "ddp-12").meeting_host.error().what ==
        "this pod has no subdomain, so the pod with index 0 cannot be found");
  for (const std::string odd : {"ddp-2.x", "-12.x", "", "ddp"}) {
    CHECK_FALSE(found(pod, odd).meeting_host.has_value());
  }
  CHECK_FALSE(find({{"JOB_COMPLETION_INDEX", ""}}));
}

TEST_CASE("A pod of a JobSet finds pod 0 of its own Job by the JobSet's service", "[launcher]") {
  const Variables pod{{"JOB_COMPLETION_INDEX", "1"}, {"JOBSET_NAME", "llama"}};
  CHECK(text_of(found(pod, "llama-trainer-0-1")) ==
        "0 at llama-trainer-0-0.llama:29400 for llama-trainer-0");
  CHECK(found(pod, "llama-trainer-0-1.other.default").meeting_host->value ==
        "llama-trainer-0-0.other.default");
}

TEST_CASE("Neighbouring jobs and steps have ports of their own", "[launcher]") {
  CHECK(derived_port(123456, 0) == 23456);
  CHECK(derived_port(9999, 0) == 29999);
  CHECK(derived_port(10000, 0) == 20000);
  CHECK(derived_port(7, 0) != derived_port(7, 1));
  CHECK(derived_port(8, 0) != derived_port(7, 1));
  for (const std::string name : {"", "a", "776994817"}) {
    CHECK(derived_port(name) >= 20000);
    CHECK(derived_port(name) <= 29999);
  }
}
