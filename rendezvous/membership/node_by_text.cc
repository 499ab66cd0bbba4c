#include "rendezvous/membership/node_by_text.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/base/text.h"

namespace ddprun {
namespace {

/// Nodes that a sentence names.
constexpr std::size_t kNamedMax = 16;

/// "1 (n1), 4 (n2)"
std::string list_of(const JobNodes& nodes, const std::vector<NodeId>& ids) {
  std::string list;
  for (std::size_t i = 0; i < ids.size() && i < kNamedMax; ++i) {
    list += (list.empty() ? "" : ", ") + std::to_string(number(ids[i])) + " (" +
            printable(nodes.at(ids[i]).host_name) + ")";
  }
  return ids.size() > kNamedMax ? list + " and " + std::to_string(ids.size() - kNamedMax) + " more"
                                : list;
}

}  // namespace

/// A name goes before a number: a host may be called 7. Nothing is guessed where several have the
/// name: to let the wrong node go costs the job a restart.
std::variant<NodeId, std::string> node_by_text(const JobNodes& nodes, std::string_view text) {
  std::vector<NodeId> named;
  for (const auto& [id, node] : nodes.all()) {
    if (node.host_name == text) {
      named.push_back(id);
    }
  }
  if (named.size() == 1) {
    return named.front();
  }
  const std::string wanted = printable(std::string(text));
  if (named.size() > 1) {
    return std::to_string(named.size()) + " nodes are called " + wanted +
           "; give the number of one: " + list_of(nodes, named);
  }
  const auto wanted_number = parse_number<std::uint64_t>(text);
  if (wanted_number && nodes.all().contains(NodeId{*wanted_number})) {
    return NodeId{*wanted_number};
  }
  const std::string known = list_of(nodes, nodes.ids());
  DDP_CHECK(named.empty(), "a node that was found is returned");
  return "no node of this job is called " + wanted + "; there are: " + known;
}

}  // namespace ddprun
