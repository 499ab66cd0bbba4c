// JobLease: what the Lease object of a job says (coordination.k8s.io/v1), read and written as JSON.
// Its spec is what client-go's leader election writes, so that `kubectl get lease` shows who leads.
// The rest is in annotations:
//
//   ddprun.io/job, writer, revision           whose it is, who wrote last, how many transactions
//   ddprun.io/leader, leader-revision, leader-lease
//   ddprun.io/term, term-revision
//   ddprun.io/state, state-revision, state-lease, state-lease-seconds    state: DEFLATE, base64
//
// Pure. What still counts of it is LeaseKeeper's to say.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/node/service_question.h"

namespace ddprun {

/// By the clock of whoever wrote it; Kubernetes keeps microseconds (MicroTime).
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

/// What Kubernetes takes in all annotations of one object, names and values together
/// (apimachinery's validation, TotalAnnotationSizeLimitB).
inline constexpr std::size_t kAnnotationBytesMax = 256 * 1'024;

struct JobLease {
  std::string resource_version;  ///< empty: there is no such object
  std::string others;            ///< JSON: what in the object is not ddprun's, and stays

  // Of its spec.
  std::string holder;  ///< of the newest leader, also where that has gone
  std::chrono::seconds leader_lasts{};
  WallTime acquired{};
  WallTime renewed{};
  std::int64_t transitions = 0;

  // Of its annotations.
  std::string writer;         ///< names the newest write; another one for each
  std::int64_t revision = 0;  ///< of the newest transaction; 0: there was none
  ServiceView view;           ///< as it was written, however long ago
  ServiceLease leader_lease;
  ServiceLease state_lease;
  std::chrono::seconds state_lasts{};
};

/// The error is of an object that somebody else has made or changed.
Result<JobLease> job_lease_of(const nlohmann::json& object, const std::string& name);
/// The body of a POST or PUT. The error is of a state that is too large.
Result<std::string> body_of(const JobLease& lease, const std::string& job_id);

/// "2026-11-26T22:00:00.123456Z".
std::string wall_time_text(WallTime time);

}  // namespace ddprun
