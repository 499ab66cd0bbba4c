// NodeByText: which node of the job a person means who writes its name, or its number where several
// have one name. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/membership/job_nodes.h"

namespace ddprun {

/// The node, or why there is not exactly one, as a sentence that names the nodes that there are. A
/// number is that of its NodeId, which the status of the coordinator shows: it is another one after
/// a failover, and after the node has come back.
std::variant<NodeId, std::string> node_by_text(const JobNodes& nodes, std::string_view text);

}  // namespace ddprun
