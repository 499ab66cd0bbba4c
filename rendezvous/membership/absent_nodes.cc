#include "rendezvous/membership/absent_nodes.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// In a reason that is addressed to the node that was refused.
constexpr std::string_view kThisNode = "this node";

}  // namespace

AbsentNodes::AbsentNodes(int max_nodes) : max_nodes_(static_cast<std::size_t>(max_nodes)) {
  DDP_CHECK(max_nodes >= 1, "a job has at least one node");
}

void AbsentNodes::refused(const HostAndAddress& who, const std::string& why, Instant now) {
  recent_.refused(who.host_name, who.address, why, now);
}

/// `last_lost_` outlives the rows: a world that began since says nothing about why the next one
/// fails.
void AbsentNodes::lost(const HostAndAddress& who, const std::string& why, Instant at) {
  last_lost_ = who.host_name;
  recent_.lost(who.host_name, who.address, why, at);
}

/// A node that was refused may be mended and come again, from the same host and address.
void AbsentNodes::came(const HostAndAddress& who) {
  recent_.came(who.host_name, who.address);
  for_good_.erase(who);
  if (last_caller_.address == who.address) {
    last_caller_ = {};  // this is what became of it
  }
}

void AbsentNodes::world_begins() {
  recent_.clear();
  for_good_.clear();
}

/// Its reason is known only when the comparison is over, and by then its hello is gone: so the name
/// is kept here.
void AbsentNodes::keep_out(NodeId id, HostAndAddress who) {
  kept_out_[id] = std::move(who);
}

std::optional<HostAndAddress> AbsentNodes::take_kept_out(NodeId id) {
  auto taken = kept_out_.extract(id);
  if (!taken) {
    return std::nullopt;
  }
  DDP_CHECK(!kept_out_.contains(id), "it is kept out no more");
  return std::move(taken.mapped());
}

bool AbsentNodes::has_room() const {
  return for_good_.size() < max_nodes_;
}

/// The newest refusal of one host and address counts: the person there may have changed the
/// mistake.
bool AbsentNodes::refuse_for_good(HostAndAddress who, RefusedNode refused) {
  DDP_CHECK(has_room(), "no more than max nodes are counted");
  return for_good_.insert_or_assign(std::move(who), std::move(refused)).second;
}

/// One reason serves all nodes, and the refused one reads another than the rest. So "this node" of
/// the refusal becomes "that node".
JobEnding AbsentNodes::ending(int min_nodes) const {
  DDP_CHECK(!for_good_.empty(), "a node was refused for good");
  const auto& [who, refused] = *for_good_.begin();
  const std::size_t others = for_good_.size() - 1;
  std::string text = "node " + who.host_name +
                     (who.address.empty() ? "" : " (" + who.address + ")") +
                     " was rejected: " + refused.refusal.why;
  for (std::size_t at = text.find(kThisNode); at != std::string::npos; at = text.find(kThisNode)) {
    text.replace(at, kThisNode.size(), "that node");
  }
  text += fmt::format(
      "{}{}; without it the job cannot have the {} nodes that it needs: start all of them again "
      "when that is mended",
      refused.refusal.todo.empty() ? "" : "; " + refused.refusal.todo,
      others == 0 ? "" : fmt::format("; {} more were rejected", others), min_nodes);
  return {refused.verdict, std::move(text), 0};
}

}  // namespace ddprun
