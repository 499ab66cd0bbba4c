#include "launcher/scheduler/lsf.h"

#include <string_view>
#include <vector>

#include "launcher/list_options.h"
#include "launcher/scheduler/host_list.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Short even for large jobs, unlike LSB_HOSTS, which repeats a host for each of its slots.
constexpr char kHosts[] = "LSB_MCPU_HOSTS";
/// From 1. Of blaunch only: the script of a job has none.
constexpr char kTask[] = "LSF_PM_TASKID";

struct LsfHosts {
  std::string first;
  int count = 0;
  std::vector<std::string> names;  ///< empty beyond kExpectedHostsMax
};

/// "hostA 16 hostB 8": each host once, and its slots.
Result<LsfHosts> hosts_of(const Environment& environment) {
  const std::string text = told_text(environment, kHosts).value_or("");
  const std::vector<std::string_view> words = words_of(text, " \t");
  bool good = !words.empty() && words.size() % 2 == 0;
  for (std::size_t i = 1; good && i < words.size(); i += 2) {
    good = is_host_name(words[i - 1]) && parse_number<int>(words[i]).value_or(0) > 0;
  }
  if (!good) {
    return Error{in_quotes(text) + " is not a list of hosts such as `a 16 b 16`", kHosts,
                 "give --nnodes and --rdzv-endpoint HOST:PORT, or --no-scheduler"};
  }
  LsfHosts hosts{std::string(words.front()), static_cast<int>(words.size() / 2), {}};
  for (std::size_t i = 0; hosts.count <= kExpectedHostsMax && i < words.size(); i += 2) {
    hosts.names.emplace_back(words[i]);
  }
  return hosts;
}

}  // namespace

std::optional<BatchJob> lsf_job(const Environment& environment) {
  const auto id = told_text(environment, "LSB_JOBID");
  const auto number = id ? parse_number<std::uint64_t>(*id) : std::nullopt;
  if (!number) {
    return std::nullopt;
  }
  BatchJob job{.system = "LSF job", .id = {*id, "LSB_JOBID"}, .number = *number};
  // 0: no job of an array.
  if (const int index = told_number(environment, "LSB_JOBINDEX").value_or(0); index > 0) {
    job.id = {*id + "." + std::to_string(index), "LSB_JOBID, LSB_JOBINDEX"};
    job.part = static_cast<std::uint64_t>(index);
  }
  if (const auto hosts = hosts_of(environment)) {
    job.first_host = Told<std::string>{hosts->first, kHosts};
  } else {
    job.first_host = hosts.error();
  }
  return job;
}

std::optional<Allocation> lsf_allocation(const Environment& environment) {
  const auto job = lsf_job(environment);
  if (!job) {
    return std::nullopt;
  }
  Allocation found{.launcher = job->system, .meeting_host = job->first_host};
  found.job_id = job->id;
  found.port = derived_port(job->number, job->part);
  const auto hosts = hosts_of(environment);
  if (hosts) {
    found.host_names = {hosts->names, kHosts};
  }
  // What is no number counts as the script, which runs alone and is told so.
  const int task = told_number(environment, kTask).value_or(0);
  if (task == 0) {
    found.agents = Told<int>{1, "LSB_JOBID"};
    if (hosts && hosts->count > 1) {
      found.advice = std::string(kHosts) + ": the job has " + std::to_string(hosts->count) +
                     " hosts, but blaunch did not start ddprun, so the program runs on this host "
                     "alone; write `blaunch -z \"...\" ddprun ...`, or give --nnodes 1";
    }
  } else if (!hosts) {
    found.agents = hosts.error();
  } else if (task > hosts->count) {
    found.agents = Error{std::to_string(task) + " processes for " + std::to_string(hosts->count) +
                             " hosts: ddprun runs once on each host",
                         kTask, "start it with blaunch -z and each host once"};
  } else {
    found.agents = Told<int>{hosts->count, kHosts};
    found.hosts = hosts->count;
  }
  return found;
}

}  // namespace ddprun
