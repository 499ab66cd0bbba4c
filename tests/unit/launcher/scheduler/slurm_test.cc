#include "launcher/scheduler/slurm.h"

#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <string>

#include "tests/unit/launcher/scheduler/scheduler_variables.h"

using namespace ddprun;
using namespace ddprun::test;

namespace {

ReadFile reader_of(const std::map<std::string, std::string>& files) {
  return [files](const std::string& path) -> std::optional<std::string> {
    const auto file = files.find(path);
    return file == files.end() ? std::nullopt : std::optional(file->second);
  };
}

using Files = std::map<std::string, std::string>;

Allocation found(const Variables& variables, const Files& files = {}) {
  const auto allocation = slurm_allocation(environment_of(variables), reader_of(files));
  REQUIRE(allocation);
  return *allocation;
}

/// What takes this process for one process of a job, whatever size the job has.
bool is_alone(const Variables& variables, const Files& files = {}) {
  const Allocation allocation = found(variables, files);
  return allocation.agents && allocation.agents->value == 1 && allocation.hosts == 1;
}

}  // namespace

TEST_CASE("A task of srun is one of the step's tasks, which meet on the step's first host",
          "[launcher]") {
  const Allocation allocation = found(slurm_task(2));
  REQUIRE(allocation.agents.has_value());
  CHECK(allocation.agents->value == 4);
  CHECK(allocation.agents->variable == "SLURM_STEP_NUM_TASKS");
  REQUIRE(allocation.meeting_host.has_value());
  CHECK(allocation.meeting_host->value == "n1");
  CHECK(allocation.hosts == 4);
  CHECK(allocation.agents_here == 1);
  CHECK(allocation.job_id.value == "123456.0");
  CHECK(allocation.port == 23456);
  CHECK(allocation.advice.empty());
  CHECK_FALSE(allocation.gpus.has_value());
}

TEST_CASE("A step on some of the job's nodes meets on the first of those", "[launcher]") {
  const Variables step = joined(slurm_task(2), {{"SLURM_STEP_NODELIST", "n[2-3]"},
                                                {"SLURM_STEP_ID", "1"},
                                                {"SLURM_STEP_NUM_TASKS", "2"},
                                                {"SLURM_STEP_NUM_NODES", "2"},
                                                {"SLURM_PROCID", "1"}});
  CHECK(found(step).meeting_host->value == "n2");
  CHECK(found(step).job_id.value == "123456.1");
  CHECK(found(step).port != found(slurm_task(0)).port);
}

TEST_CASE("Tasks that share a node are counted from Slurm's short form", "[launcher]") {
  const auto here = [](const std::string& text, const std::string& node) {
    return found(
               joined(slurm_task(0), {{"SLURM_STEP_TASKS_PER_NODE", text}, {"SLURM_NODEID", node}}))
        .agents_here;
  };
  CHECK(here("2,1(x2)", "0") == 2);
  CHECK(here("2,1(x2)", "1") == 1);
  CHECK(here("1,8(x3),2", "3") == 8);
  CHECK(here("1,8(x3),2", "4") == 2);
  // What cannot be read stops nobody.
  for (const char* bad : {"", "x", "2(x", "2(x)", "(x2)", "-1", "2(x-1)", "2(x99999999999)"}) {
    CHECK(here(bad, "5") == 1);
  }
}

TEST_CASE("The script of sbatch and a shell of salloc are alone, and are told of srun",
          "[launcher]") {
  CHECK(is_alone(kBatch));
  CHECK(found(kBatch).advice ==
        "SLURM_JOB_NUM_NODES: the job has 4 nodes, but srun did not start ddprun, so the program "
        "runs on this machine alone; write `srun ddprun ...`, or give --nnodes 1");
  CHECK(found(kBatch).computes_here);
  CHECK(is_alone(kSalloc));
  CHECK_FALSE(found(kSalloc).computes_here);
  CHECK(found(joined(kBatch, {{"SLURM_JOB_NUM_NODES", "1"}})).advice.empty());
  // On a login node the program would not even run in the job.
  CHECK_FALSE(found(joined(kSalloc, {{"SLURM_JOB_NUM_NODES", "1"}})).advice.empty());
}

TEST_CASE("An interactive shell's step is no step of srun", "[launcher]") {
  CHECK(is_alone(
      joined(slurm_task(0), {{"SLURM_STEP_ID", "4294967290"}, {"SLURM_STEP_NUM_TASKS", "1"}})));
}

TEST_CASE("The shell of srun --pty is alone, and is told of srun where the job has more nodes",
          "[launcher]") {
  const Variables shell =
      joined(slurm_task(0), {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PTY_PORT", "40123"}});
  CHECK(is_alone(shell));
  CHECK(found(shell).computes_here);
  CHECK(found(shell).advice.starts_with("SLURM_JOB_NUM_NODES: the job has 4 nodes, but srun did"));
  CHECK(found(joined(shell, {{"SLURM_JOB_NUM_NODES", "1"}})).advice.empty());
  // srun --pty with several tasks runs ddprun itself; a step of one task without a terminal is a
  // job of one node that somebody means.
  CHECK(found(joined(slurm_task(0), {{"SLURM_PTY_PORT", "40123"}})).agents->value == 4);
  CHECK(found(joined(slurm_task(0), {{"SLURM_STEP_NUM_TASKS", "1"}})).advice.empty());
}

TEST_CASE("The script of a job that a task of another job submitted does not take over its step",
          "[launcher]") {
  // As captured: sbatch keeps the step's variables of its caller.
  const Variables leaked = joined(slurm_task(0), {{"SLURM_STEP_NODELIST", "n[2-3]"},
                                                  {"SLURM_STEP_NUM_TASKS", "2"},
                                                  {"SLURMD_NODENAME", "n1"}});
  CHECK(is_alone(leaked));
  CHECK(is_alone(joined(slurm_task(0), {{"SLURM_PROCID", "4"}})));
}

TEST_CASE("The daemon above a process tells a script from a task, even on the step's nodes",
          "[launcher]") {
  const auto below = [](const std::string& title) {
    return Files{{"/proc/self/stat", "40 (ddp) run) S 30 1 1"},
                 {"/proc/30/cmdline", std::string("bash\0job.sh", 11)},
                 {"/proc/30/stat", "30 (bash) S 20 1 1"},
                 {"/proc/20/cmdline", title},
                 {"/proc/20/stat", "20 (slurmstepd) S 1 1 1"}};
  };
  CHECK(is_alone(slurm_task(0), below("slurmstepd: [123456.batch]")));
  CHECK(is_alone(slurm_task(0), below("slurmstepd: [123456.interactive]")));
  CHECK_FALSE(is_alone(slurm_task(0), below("slurmstepd: [123456.0]")));
  CHECK_FALSE(is_alone(slurm_task(0), below("slurmstepd: [123457.12]")));  // a part of the job
  CHECK_FALSE(is_alone(slurm_task(0), below("sshd")));
  // Whatever is in these files, the search ends.
  for (const std::string stat : {"", "x", "1 (a) S", "1 (a) S -3", "1 (a) S self", "1 (a) S 40"}) {
    const Files files{{"/proc/self/stat", stat}, {"/proc/40/stat", stat}};
    CHECK_FALSE(is_alone(slurm_task(0), files));
  }
}

TEST_CASE("A node list that cannot be read is an error where it is needed", "[launcher]") {
  const Allocation allocation = found(joined(slurm_task(1), {{"SLURM_STEP_NODELIST", "n[1-"}}));
  CHECK(allocation.agents->value == 4);
  REQUIRE_FALSE(allocation.meeting_host.has_value());
  CHECK(allocation.meeting_host.error().sentence() ==
        "SLURM_STEP_NODELIST: 'n[1-' is not a list of hosts such as n[1-4,7]; "
        "give --rdzv-endpoint HOST:PORT, or --no-scheduler");
}

TEST_CASE("GPUs of the node are what Slurm gave to it", "[launcher]") {
  CHECK(found(joined(slurm_task(0), {{"SLURM_GPUS_ON_NODE", "4"}})).gpus->value == 4);
  CHECK(found(joined(kBatch, {{"SLURM_GPUS_ON_NODE", "2"}})).gpus->value == 2);
}

TEST_CASE("Without a job of Slurm its variables mean nothing", "[launcher]") {
  CHECK_FALSE(slurm_allocation(environment_of({}), reader_of({})));
  Variables left_over = slurm_task(1);
  for (const std::string id : {"", "x", "-1", "99999999999"}) {
    left_over["SLURM_JOB_ID"] = id;
    CHECK_FALSE(slurm_allocation(environment_of(left_over), reader_of({})));
  }
}
