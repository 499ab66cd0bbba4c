#include "rendezvous/membership/admission.h"

#include <fmt/core.h>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// In heartbeat timeouts: one until the loss is noticed, one for the fence, and two for the votes.
constexpr int kElectedWithin = 4;

std::string range(int min_nodes, int max_nodes) {
  return min_nodes == max_nodes ? std::to_string(min_nodes)
                                : fmt::format("{}:{}", min_nodes, max_nodes);
}

/// A witness runs nothing, and is often started without the options of the job that it votes in. If
/// it begins that job, they count.
Refusal differs(const JobTerms& terms, const std::string& field, const std::string& here,
                const std::string& job) {
  DDP_CHECK(here != job, "a disagreement names two values");
  if (terms.begun_by_witness) {
    return {"its " + field + " is '" + here +
                "', and that of the witness that began this job is '" + job + "'",
            "give the witness the same " + field + ": it was at the endpoint before all nodes",
            true};
  }
  return {"its " + field + " is '" + here + "', the job's is '" + job + "'",
          "start every node with the same " + field, true};
}

}  // namespace

/// Any free port above the start of ip_local_port_range may be the endpoint of one job and, by
/// chance, of an agent of another. Their ids may be equal, and do not tell the two apart.
std::optional<Refusal> stray(bool at_endpoint, const NodeDescription& node) {
  if (at_endpoint || !node.by_endpoint) {
    return std::nullopt;
  }
  return Refusal{"the agent at this port was given it by the system, and its job meets elsewhere",
                 "name the endpoint of the job; where this is it, choose another port, below those "
                 "that the system gives out (sysctl net.ipv4.ip_local_port_range)"};
}

/// A voter that had contact with its coordinator so lately may still take part in the election of a
/// successor. That job goes on elsewhere then, and must not be begun a second time here.
bool of_another_job(JobInstance instance, const NodeDescription& node) {
  if (number(instance) == 0 || !node.past || remembers(node, instance)) {
    return false;
  }
  const Past& past = *node.past;
  DDP_CHECK(past.instance != instance, "a node of this instance remembers it");
  return !past.at_endpoint || ago(node, past.contact_at) < kElectedWithin * past.heartbeat_timeout;
}

/// The job first: of a node of another job all other values say nothing. What only concerns workers
/// comes after the witnesses, which start none.
std::optional<Refusal> disagreement(const JobTerms& terms, const NodeDescription& node) {
  DDP_CHECK(terms.min_nodes >= 1 && terms.min_nodes <= terms.max_nodes, "1 <= min <= max nodes");
  if (node.job_id != terms.job_id) {
    return Refusal{"this endpoint serves the job '" + terms.job_id + "', not '" + node.job_id + "'",
                   "give each job an endpoint of its own, and all its nodes the same --rdzv-id"};
  }
  if (auto astray = stray(terms.at_endpoint, node)) {
    return astray;
  }
  if (node.witness) {
    const bool is_of_use =
        terms.max_nodes > 1 || terms.begun_by_witness || node.voter == kServiceVoter;
    return is_of_use ? std::nullopt
                     : std::optional(Refusal{"a job of one node (--nnodes 1) has no use for a "
                                             "witness: no other node could take it over",
                                             "leave the witness out, or give the job more nodes"});
  }
  if (!node.unable.empty()) {
    return Refusal{"it cannot run workers: " + node.unable, {}, true};
  }
  if (node.min_nodes != terms.min_nodes || node.max_nodes != terms.max_nodes) {
    return differs(terms, "--nnodes", range(node.min_nodes, node.max_nodes),
                   range(terms.min_nodes, terms.max_nodes));
  }
  if (node.max_restarts != terms.max_restarts) {
    return differs(terms, "--max-restarts", std::to_string(node.max_restarts),
                   std::to_string(terms.max_restarts));
  }
  if (node.require_same_env != terms.require_same_env) {
    const auto given = [](bool yes) { return yes ? "given" : "not given"; };
    return differs(terms, "--require-same-env", given(node.require_same_env),
                   given(terms.require_same_env));
  }
  return std::nullopt;
}

}  // namespace ddprun
