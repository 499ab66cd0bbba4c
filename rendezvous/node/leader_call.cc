#include "rendezvous/node/leader_call.h"

namespace ddprun {

message::JobOptions job_options(const NodeDescription& node) {
  return {node.min_nodes, node.max_nodes, node.max_restarts, node.require_same_env};
}

message::JobOptions job_options(const MembershipOptions& job) {
  return {job.min_nodes, job.max_nodes, job.max_restarts, job.require_same_env};
}

bool call_is_for(const message::Follow& call, VoterId voter, JobInstance instance,
                 const std::string& job_id) {
  const bool is_of_job = number(instance) == 0 || call.instance == instance;
  return call.job_id == job_id && is_of_job && (call.to_endpoint || call.voter == voter);
}

bool is_of_another_job(const message::Moved& answer, const NodeDescription& node) {
  return node.past && number(answer.instance) != 0 && !remembers(node, answer.instance);
}

bool outranks(const message::Follow& call, Term term, bool begins) {
  return call.term > term || (begins && call.term == term);
}

}  // namespace ddprun
