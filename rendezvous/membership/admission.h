// Admission: whether a node may be part of the job, and if not, why. Pure.
#pragma once

#include <optional>
#include <string>

#include "rendezvous/membership/node_description.h"

namespace ddprun {

/// What all nodes of a job agree on.
struct JobTerms {
  std::string job_id;
  int min_nodes = 1;
  int max_nodes = 1;
  int max_restarts = 0;
  bool require_same_env = false;
  /// Where the coordinator listens is an endpoint that people name. Otherwise the system chose the
  /// port.
  bool at_endpoint = true;
  /// These are the options of a witness, which was at the endpoint first.
  bool begun_by_witness = false;
};

struct Refusal {
  std::string why;
  std::string todo;
  /// A node of this very job, which would be refused another time as well.
  bool final = false;
};

/// A node that came by the endpoint that its user named, to a port that the system chose
/// (`at_endpoint` false), means another job: the ports are the same by chance.
std::optional<Refusal> stray(bool at_endpoint, const NodeDescription& node);

/// A node that remembers a job of another instance is no part of this one, though both have one id.
/// Where the coordinator of that job was at this endpoint, and was lost so long ago that its voters
/// would have elected another by now, the job has begun anew here, and the node is taken in.
bool of_another_job(JobInstance instance, const NodeDescription& node);

/// The first disagreement found, naming the field and both values; none when the node may join.
/// Programs may differ: a parameter server beside trainers (environment_check.h tells people of
/// it).
std::optional<Refusal> disagreement(const JobTerms& terms, const NodeDescription& node);

}  // namespace ddprun
