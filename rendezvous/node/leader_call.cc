#include "rendezvous/node/leader_call.h"

namespace ddprun {

message::JobOptions job_options(const NodeDescription& node) {
  return {node.min_nodes, node.max_nodes, node.max_restarts, node.require_same_env};
}

message::JobOptions job_options(const MembershipOptions& job) {
  return {job.min_nodes, job.max_nodes, job.max_restarts, job.require_same_env};
}

/// Both the id and the instance must match, for ids repeat (the default is `none`). A call of
/// another job that happened to use this port would take the node away from its own.
bool call_is_for(const message::Follow& call, VoterId voter, JobInstance instance,
                 const std::string& job_id) {
  const bool is_of_job = number(instance) == 0 || call.instance == instance;
  return call.job_id == job_id && is_of_job && (call.to_endpoint || call.voter == voter);
}

bool is_of_another_job(const message::Moved& answer, const NodeDescription& node) {
  return node.past && number(answer.instance) != 0 && !remembers(node, answer.instance);
}

/// A coordinator that began without state has raised its term above those that its nodes remember,
/// and nobody voted for it. So it is compared by the newest of these, and an elected leader of that
/// term comes before it.
bool outranks(const message::Follow& call, Term term, bool begins) {
  return call.term > term || (begins && call.term == term);
}

}  // namespace ddprun
