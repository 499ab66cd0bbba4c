// What Kubeflow Trainer shows of a job (TrainJob.status.trainerStatus), from version 2.2 on, by its
// guide "TrainJob Progress and Training Metrics": how a status server is named, and what it is
// told. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "agent/operations/job_snapshot.h"
#include "rendezvous/base/endpoint.h"
#include "rendezvous/base/result.h"

namespace ddprun {

struct StatusUrl {
  Endpoint server;
  std::string path;  ///< begins with /
};

/// "https://host[:port]/path": its server takes TLS alone.
Result<StatusUrl> parse_status_url(std::string_view url);

/// A TrainJob has one status, so the node that runs rank 0 tells it: JSON. None on all others, and
/// until that rank has told of a step.
std::optional<std::string> kubeflow_status(const JobSnapshot& job);

}  // namespace ddprun
