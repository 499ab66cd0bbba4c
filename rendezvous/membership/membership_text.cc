// What Membership says to people while it waits, and its invariants: apart from the rules, so that
// these read without interruption.
#include <algorithm>
#include <string>
#include <string_view>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {
namespace {

/// In a reason that is addressed to the node that was refused.
constexpr std::string_view kThisNode = "this node";

std::string seconds_text(std::chrono::nanoseconds duration) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(duration).count()) + " s";
}

}  // namespace

/// "n1, n2 and 7 more"
std::string Membership::names_here() const {
  std::string text;
  std::size_t named = 0;
  for (const auto& [id, node] : nodes_) {
    if (named == kNamesInReasonMax) {
      return text + " and " + std::to_string(nodes_.size() - named) + " more";
    }
    text += (named == 0 ? "" : ", ") + node.host_name;
    ++named;
  }
  return text.empty() ? "none" : text;
}

void Membership::tell_waiting() {
  std::vector<NodeId> all;
  all.reserve(nodes_.size());
  for (const auto& [id, node] : nodes_) {
    all.push_back(id);
  }
  commands_.push_back(
      TellWaiting{std::move(all), std::make_shared<RendezvousStatus>(waiting_table())});
}

void Membership::tell_turn(NodeId id, std::string note) {
  RendezvousStatus table;
  table.waits_for = RendezvousStatus::For::turn;
  table.min_nodes = options_.min_nodes;
  table.max_nodes = options_.max_nodes;
  table.nodes_here = static_cast<int>(nodes_.size());
  table.note = std::move(note);
  commands_.push_back(TellWaiting{{id}, std::make_shared<RendezvousStatus>(std::move(table))});
}

/// A few rows whatever the size of the job, in time linear in it: it is made at growing intervals.
RendezvousStatus Membership::waiting_table() const {
  RendezvousStatus table;
  table.min_nodes = options_.min_nodes;
  table.max_nodes = options_.max_nodes;
  table.nodes_here = static_cast<int>(nodes_.size());
  table.waited = now_ - gathering_.since();
  Instant ends = gathering_.join_deadline();
  // Once it is over something else is awaited: a quorum, or the end of old leases.
  if (const auto last_call = gathering_.last_call_ends(); last_call && *last_call > now_) {
    table.waits_for = RendezvousStatus::For::last_call;
    ends = *last_call;
  }
  table.left = std::max(ends - now_, Instant(0));
  const bool few = nodes_.size() <= kWaitingRowsMax;
  std::vector<std::string> names;
  for (const auto& [id, node] : nodes_) {
    table.workers_here += node.local_world_size;
    if (few) {
      table.here.push_back({node.host_name, node.address, node.local_world_size, node.node_rank,
                            node.hosts_coordinator, now_ - node.joined_at});
    } else {
      names.push_back(node.host_name);
    }
  }
  table.names_here = fold_names(std::move(names));
  waiting_room_.fill(table, now_);
  table.missing_ranks = missing_ranks();
  if (state_ == JobState::ending) {
    table.note = "the job is over, and this is being made known";
  }
  if (!leadership_.quorum_follows()) {
    table.note += (table.note.empty() ? "" : ": ") + leadership_.quorum_text();
  }
  if (held_back_ && waits_for_old_world()) {
    table.note += (table.note.empty() ? "" : ": ") + old_world_text();
  }
  if (table.note.empty() && host_is_alone() && table.waits_for == RendezvousStatus::For::nodes) {
    table.note = options_.endpoint_note;
  }
  return table;
}

std::string Membership::old_world_text() const {
  return "a node of the world before is not here, and may run workers until its lease is over: the "
         "next attempt begins in " +
         seconds_text(fence_.over_at() - now_);
}

/// Ranks that nobody has, when all that are here were given one.
std::vector<int> Membership::missing_ranks() const {
  std::vector<int> missing;
  const bool all_given = !nodes_.empty() && node_ranks_.size() == nodes_.size();
  for (int rank = 0; all_given && rank < options_.min_nodes && missing.size() < kMissingRanksMax;
       ++rank) {
    if (!node_ranks_.contains(rank)) {
      missing.push_back(rank);
    }
  }
  return missing;
}

bool Membership::host_is_alone() const {
  return nodes_.size() == 1 && nodes_.begin()->second.hosts_coordinator;
}

std::string Membership::quorum_missing_text() const {
  return "after " + seconds_text(now_ - gathering_.since()) + " only " + leadership_.quorum_text();
}

/// Why a gathering failed: who was here, and as far as can be known, who was not.
std::string Membership::missing_text() const {
  std::string text = "after " + seconds_text(now_ - gathering_.since()) + " only " +
                     std::to_string(nodes_.size()) + " of " + std::to_string(options_.min_nodes) +
                     (nodes_.size() == 1 ? " nodes was" : " nodes were") + " here (" +
                     names_here() + ")";
  std::string ranks;
  for (const int rank : missing_ranks()) {
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  if (!ranks.empty()) {
    text += "; missing: node rank " + ranks;
  }
  if (!last_lost_.empty()) {
    text += "; the last node lost was " + last_lost_;
  }
  RendezvousStatus gone;
  waiting_room_.fill(gone, now_);
  if (!gone.refused.empty()) {
    const NodeGone& last = gone.refused.front();
    text += "; refused: " + (last.host_name.empty() ? "" : last.host_name + " ") +
            (last.address.empty() ? "" : "at " + last.address + ", ") + last.why;
  }
  if (host_is_alone() && !options_.endpoint_note.empty()) {
    text += "; " + options_.endpoint_note;
  }
  return text;
}

/// The job cannot have its nodes, because some were refused.
Membership::Ending Membership::refused_ending() const {
  const auto& [who, refused] = *refused_.begin();
  const std::size_t others = refused_.size() - 1;
  std::string text = "node " + who.first + (who.second.empty() ? "" : " (" + who.second + ")") +
                     " was rejected: " + refused.refusal.why;
  for (std::size_t at = text.find(kThisNode); at != std::string::npos; at = text.find(kThisNode)) {
    text.replace(at, kThisNode.size(), "that node");
  }
  text += (refused.refusal.todo.empty() ? "" : "; " + refused.refusal.todo) +
          (others == 0 ? "" : "; " + std::to_string(others) + " more were rejected") +
          "; without it the job cannot have the " + std::to_string(options_.min_nodes) +
          " nodes that it needs: start all of them again when that is mended";
  return {refused.verdict, std::move(text), 0};
}

/// Constant time, after every event; the simulator checks what needs a walk over all nodes.
void Membership::check_invariants() const {
  DDP_CHECK(working_ >= 0 && unstarted_ >= 0 && stopping_ >= 0, "counts are not negative");
  DDP_CHECK(node_ranks_.size() <= nodes_.size(), "a node has one rank at most");
  DDP_CHECK(contenders_.size() <= node_ranks_.size(), "one node at most waits for a rank");
  DDP_CHECK(policy_.budget().used() <= policy_.budget().max(), "the budget is kept");
  switch (state_) {
    case JobState::gathering:
      DDP_CHECK(working_ == 0 && stopping_ == 0, "nothing lives while gathering");
      DDP_CHECK(!incident_ && !ending_, "an incident or an end is dealt with before gathering");
      break;
    case JobState::running:
      DDP_CHECK(working_ > 0, "a running attempt has somebody to wait for");
      DDP_CHECK(stopping_ == 0 && !incident_ && !ending_, "nobody stops a running attempt");
      DDP_CHECK(attempt_ && world_nodes_ >= options_.min_nodes, "a world has min nodes");
      DDP_CHECK(world_nodes_ <= options_.max_nodes, "a world has max nodes at most");
      break;
    case JobState::stopping:
      DDP_CHECK(stopping_ > 0, "somebody is waited for");
      DDP_CHECK(working_ == 0, "all were told to stop");
      DDP_CHECK(incident_ || ending_, "an attempt is stopped for a reason");
      break;
    case JobState::ending:
    case JobState::over:
      DDP_CHECK(ending_.has_value(), "a job ends with a verdict");
      DDP_CHECK(working_ == 0 && stopping_ == 0, "nothing lives after the end");
      break;
  }
}

}  // namespace ddprun
