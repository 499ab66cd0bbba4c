#include "rendezvous/node/leader_call.h"

namespace ddprun {

message::JobOptions job_options(const NodeDescription& node) {
  return {node.min_nodes, node.max_nodes, node.max_restarts, node.require_same_env};
}

bool call_is_for(const message::Follow& call, const std::string& job_id,
                 const message::JobOptions& job, bool begins) {
  return call.job_id == job_id && (!call.to_endpoint || (begins && *call.to_endpoint == job));
}

bool outranks(const message::Follow& call, Term term, bool begins) {
  return call.term > term || (begins && call.term == term);
}

}  // namespace ddprun
