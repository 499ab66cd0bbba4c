#include "launcher/scheduler/kubernetes.h"

#include "launcher/list_options.h"
#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Kubernetes sets it for each pod of an Indexed Job, and for no other pod.
constexpr char kIndex[] = "JOB_COMPLETION_INDEX";
/// Of the template, and torchrun's: a pod has its ports for itself.
constexpr int kPort = 29400;

}  // namespace

std::optional<Allocation> kubernetes_allocation(
    const Environment& environment, const std::function<std::string()>& full_host_name) {
  const auto index = told_number(environment, kIndex);
  if (!index) {
    return std::nullopt;
  }
  Allocation found{.launcher = "Indexed Job of Kubernetes", .agents = Told<int>{0, kIndex}};
  found.hosts = 2;  // or more, if the user says that it is one job
  found.port = kPort;
  found.advice = std::string(kIndex) +
                 ": Kubernetes does not tell a pod how many this Job has, so the program runs in "
                 "this pod alone; give --nnodes for one job of all pods, or --nnodes 1";
  // The pod's name, `<job>-<index>`, is its host name unless the template sets another one.
  const std::string name = full_host_name();
  const std::string host = name.substr(0, name.find('.'));
  std::string domain = name.substr(host.size());
  const std::string suffix = "-" + std::to_string(*index);
  if (!host.ends_with(suffix) || host.size() == suffix.size()) {
    found.meeting_host =
        Error{"this pod is named " + in_quotes(host) + ", which does not end in " + suffix, kIndex,
              "give --rdzv-endpoint HOST:PORT"};
    return found;
  }
  const std::string job = host.substr(0, host.size() - suffix.size());
  DDP_CHECK(!job.empty(), "a Job has a name");
  found.job_id = {job, "the pod's name"};
  // A JobSet makes the service that its pods are found by, with its own name unless told another.
  const auto set = told_text(environment, "JOBSET_NAME");
  if (domain.empty() && set && job.starts_with(*set + "-")) {
    domain = "." + *set;
  }
  if (domain.empty()) {
    found.meeting_host = Error{
        "this pod has no subdomain, so the pod with index 0 cannot be found", kIndex,
        "set `subdomain` in the Job's pod template to a headless service, or give --rdzv-endpoint"};
    return found;
  }
  found.meeting_host = Told<std::string>{job + "-0" + domain, "the pod's name"};
  return found;
}

}  // namespace ddprun
