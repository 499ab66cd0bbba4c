// KubeflowReporter: tells Kubeflow Trainer's status server how the job is, where the variables are
// there by which Kubeflow names one to each container: KUBEFLOW_TRAINER_SERVER_URL, ..._CA_CERT and
// ..._TOKEN (paths). Each trouble is told once, and the job goes on. Lives on the agent's loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/operations/job_snapshot.h"

namespace boost::asio {
class io_context;
}
namespace spdlog {
class logger;
}

namespace ddprun {

class KubeflowReporter {
 public:
  /// `environment`: "NAME=VALUE". Null: no server is named, or none that can be asked, which is a
  /// warning.
  static std::unique_ptr<KubeflowReporter> open(boost::asio::io_context& io,
                                                const std::vector<std::string>& environment,
                                                std::function<JobSnapshot()> snapshot,
                                                std::shared_ptr<spdlog::logger> log);
  ~KubeflowReporter();
  KubeflowReporter(const KubeflowReporter&) = delete;
  KubeflowReporter& operator=(const KubeflowReporter&) = delete;

 private:
  struct Impl;
  explicit KubeflowReporter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
