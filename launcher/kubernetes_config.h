// KubernetesConfig: where a pod finds the API server of its cluster, and as whom it speaks there:
// what Kubernetes gives every pod, and what --rdzv-endpoint and --rdzv-conf put in its place
// (kubernetes.io/docs/tasks/run-application/access-api-from-pod).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "agent/job_spec.h"
#include "launcher/options.h"
#include "launcher/rdzv_conf.h"
#include "rendezvous/base/result.h"

namespace ddprun {

/// Of the cluster that this pod is in. `where`: the option that asks for it.
Result<Endpoint> kubernetes_server(const Environment& environment, const std::string& where);

/// Fills what is used to speak to the server; `where` names --rdzv-conf.
Result<void> speak_to_kubernetes(const RdzvConf& conf, const std::string& where, JobSpec& job);

/// With the kubernetes backend: the namespace, where none was given, is the service account's. The
/// files that will be read later are looked at now, so that who waits for them is told at once.
Result<void> read_service_account(
    const std::function<std::optional<std::string>(const std::string& path)>& read, JobSpec& job);

}  // namespace ddprun
