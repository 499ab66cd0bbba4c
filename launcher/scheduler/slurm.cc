#include "launcher/scheduler/slurm.h"

#include <string_view>
#include <utility>
#include <vector>

#include "launcher/scheduler/host_list.h"
#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Numbers from here on are no step of srun: the script, an interactive shell (slurm.h).
constexpr std::uint32_t kSpecialSteps = 0xffff'fff0;

/// Processes between the daemon of a step and this one: shells, containers, wrappers.
constexpr int kAncestorsMax = 64;

constexpr char kStepHosts[] = "SLURM_STEP_NODELIST";

struct Step {
  std::uint32_t id = 0;
  int tasks = 0;
};

/// Of a process in /proc/PID/stat, "17 (name) S 16 ...": its parent. 0 for all else.
int parent_in(const std::string& stat) {
  const auto fields = words_of(std::string_view(stat).substr(stat.rfind(')') + 1), " ");
  return stat.find(')') == std::string::npos || fields.size() < 2
             ? 0
             : parse_number<int>(fields[1]).value_or(0);
}

/// Whether the nearest slurmstepd above this process serves a script or a shell, by its title:
/// "slurmstepd: [17.0]" serves step 0 of job 17, and "slurmstepd: [17.batch]" its script. In a
/// container with process numbers of its own none is seen.
bool is_below_script(const ReadFile& read_file) {
  constexpr std::string_view kTitle = "slurmstepd: [";
  std::string process = "self";
  for (int level = 0; level < kAncestorsMax; ++level) {
    const int parent = parent_in(read_file("/proc/" + process + "/stat").value_or(""));
    if (parent <= 1) {
      return false;
    }
    process = std::to_string(parent);
    const std::string title = read_file("/proc/" + process + "/cmdline").value_or("");
    if (title.starts_with(kTitle)) {
      const std::string_view step = std::string_view(title).substr(title.rfind('.') + 1);
      return step.find_first_of("0123456789") != 0;
    }
  }
  return false;
}

/// The step of srun that this process is a task of.
std::optional<Step> step_of(const Environment& environment, const ReadFile& read_file) {
  const auto text = told_text(environment, "SLURM_STEP_ID");
  const std::uint32_t id =
      text ? parse_number<std::uint32_t>(*text).value_or(kSpecialSteps) : kSpecialSteps;
  const auto tasks = told_number(environment, "SLURM_STEP_NUM_TASKS");
  const auto rank = told_number(environment, "SLURM_PROCID");
  if (id >= kSpecialSteps || !tasks || !rank || *rank >= *tasks) {
    return std::nullopt;
  }
  // Left over from the task that submitted this job, unless this node is one of the step's. A list
  // that cannot be read decides nothing here, and is an error where it is needed.
  const auto node = told_text(environment, "SLURMD_NODENAME");
  const auto hosts = HostList::parse(told_text(environment, kStepHosts).value_or(""), kStepHosts);
  if (node && hosts && !hosts->has(*node)) {
    return std::nullopt;
  }
  return is_below_script(read_file) ? std::nullopt : std::optional(Step{id, *tasks});
}

/// `srun --pty bash` in an allocation: a person works in the shell, and this step of one task says
/// nothing about what is typed there. What srun --pty runs by itself looks the same, and is one
/// process as well.
bool is_terminal_step(const Environment& environment, const Step& step) {
  return step.tasks == 1 && told_text(environment, "SLURM_PTY_PORT");
}

/// SLURM_STEP_TASKS_PER_NODE: "2,1(x3)" are 2 tasks on the first node and 1 on three others.
int tasks_on(const std::string& text, int node) {
  for (const std::string_view item : parts_of(text, ',')) {
    const auto open = item.find("(x");
    const auto tasks = parse_number<int>(item.substr(0, open));
    const auto nodes = open == std::string_view::npos || !item.ends_with(')')
                           ? std::optional(1)
                           : parse_number<int>(item.substr(open + 2, item.size() - open - 3));
    if (!tasks || !nodes || *tasks < 1 || *nodes < 1) {
      break;
    }
    if (node < *nodes) {
      return *tasks;
    }
    node -= *nodes;
  }
  return 1;
}

/// For people; a list that cannot be read is an error where it is needed.
Told<std::vector<std::string>> all_of(const Environment& environment, const char* name) {
  const auto hosts = HostList::parse(told_text(environment, name).value_or(""), name);
  std::vector<std::string> names;
  for (int i = 0; hosts && hosts->size() <= kExpectedHostsMax && i < hosts->size(); ++i) {
    names.push_back(hosts->at(i));
  }
  return {std::move(names), name};
}

Result<Told<std::string>> first_of(const Environment& environment, const char* name) {
  const auto hosts = HostList::parse(told_text(environment, name).value_or(""), name);
  if (!hosts) {
    return hosts.error();
  }
  DDP_CHECK(hosts->size() > 0, "a list that was read names a host");
  return Told<std::string>{hosts->at(0), name};
}

/// A script of sbatch, a shell of salloc or of srun --pty: one process, whatever the job has.
Allocation outside_of_steps(const Environment& environment, const BatchJob& job) {
  Allocation found{.launcher = job.system, .agents = Told<int>{1, "SLURM_JOB_ID"}};
  found.host_names = all_of(environment, "SLURM_JOB_NODELIST");
  found.computes_here = told_text(environment, "SLURMD_NODENAME").has_value();
  const int nodes = told_number(environment, "SLURM_JOB_NUM_NODES").value_or(1);
  if (nodes > 1 || !found.computes_here) {
    found.advice = "SLURM_JOB_NUM_NODES: the job has " + std::to_string(nodes) +
                   (nodes == 1 ? " node" : " nodes") +
                   ", but srun did not start ddprun, so the program runs on this machine alone; "
                   "write `srun ddprun ...`, or give --nnodes 1";
  }
  return found;
}

}  // namespace

std::optional<BatchJob> slurm_job(const Environment& environment) {
  const auto id = told_text(environment, "SLURM_JOB_ID");
  const auto number = id ? parse_number<std::uint32_t>(*id) : std::nullopt;
  if (!number) {
    return std::nullopt;
  }
  BatchJob job{.system = "Slurm job", .id = {*id, "SLURM_JOB_ID"}, .number = *number};
  job.first_host = first_of(environment, "SLURM_JOB_NODELIST");
  return job;
}

std::optional<Allocation> slurm_allocation(const Environment& environment,
                                           const ReadFile& read_file) {
  const auto job = slurm_job(environment);
  if (!job) {
    return std::nullopt;
  }
  const auto step = step_of(environment, read_file);
  Allocation found = outside_of_steps(environment, *job);
  if (step && !is_terminal_step(environment, *step)) {
    DDP_CHECK(step->tasks > 0, "a step that has this task has one");
    found = {.launcher = job->system, .agents = Told<int>{step->tasks, "SLURM_STEP_NUM_TASKS"}};
    found.meeting_host = first_of(environment, kStepHosts);
    found.hosts = told_number(environment, "SLURM_STEP_NUM_NODES").value_or(1);
    found.host_names = all_of(environment, kStepHosts);
    found.agents_here = tasks_on(told_text(environment, "SLURM_STEP_TASKS_PER_NODE").value_or(""),
                                 told_number(environment, "SLURM_NODEID").value_or(0));
    // Two steps of one job run beside each other: srun ... & srun ... &
    found.job_id = {job->id.value + "." + std::to_string(step->id), "SLURM_JOB_ID, SLURM_STEP_ID"};
    found.port = derived_port(job->number, step->id);
  }
  constexpr char kGpus[] = "SLURM_GPUS_ON_NODE";
  if (const auto gpus = told_number(environment, kGpus)) {
    found.gpus = Told<int>{*gpus, kGpus};
  }
  return found;
}

bool srun_speaks_pmi(const Environment& environment, const ReadFile& read_file) {
  const auto step = slurm_job(environment) ? step_of(environment, read_file) : std::nullopt;
  return step && told_number(environment, "PMI_SIZE") == step->tasks &&
         told_number(environment, "PMI_RANK") == told_number(environment, "SLURM_PROCID");
}

}  // namespace ddprun
