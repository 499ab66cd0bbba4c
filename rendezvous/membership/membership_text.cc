// What Membership says to people while it waits, and its invariants: apart from the rules, so that
// these read without interruption.
#include <algorithm>
#include <string>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {
namespace {

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

std::string Membership::waiting_text() const {
  const bool elastic = options_.min_nodes != options_.max_nodes;
  std::string text = std::to_string(nodes_.size()) + " of " + std::to_string(options_.min_nodes) +
                     (elastic ? ":" + std::to_string(options_.max_nodes) : "") + " nodes here (" +
                     names_here() + "), ";
  if (const auto last_call = gathering_.last_call_ends()) {
    return text + "starting in " + seconds_text(*last_call - now_) + " unless more come first";
  }
  const auto needed = static_cast<std::size_t>(options_.min_nodes) - nodes_.size();
  return text + "waiting for " + std::to_string(needed) + " more for up to " +
         seconds_text(std::max(gathering_.join_deadline() - now_, Instant(0)));
}

/// Why a gathering failed: who was here, and as far as can be known, who was not.
std::string Membership::missing_text() const {
  std::string text = "after " + seconds_text(now_ - gathering_.since()) + " only " +
                     std::to_string(nodes_.size()) + " of " + std::to_string(options_.min_nodes) +
                     (nodes_.size() == 1 ? " nodes was" : " nodes were") + " here (" +
                     names_here() + ")";
  const bool all_ranks_given = !nodes_.empty() && node_ranks_.size() == nodes_.size();
  if (all_ranks_given) {
    std::string ranks;
    std::size_t named = 0;
    for (int rank = 0; rank < options_.min_nodes && named < kNamesInReasonMax; ++rank) {
      if (!node_ranks_.contains(rank)) {
        ranks += (named++ == 0 ? "" : ", ") + std::to_string(rank);
      }
    }
    if (named > 0) {
      text += "; missing: node rank " + ranks;
    }
  }
  if (!last_lost_.empty()) {
    text += "; the last node lost was " + last_lost_;
  }
  return text;
}

/// Constant time, after every event; the simulator checks what needs a walk over all nodes.
void Membership::check_invariants() const {
  DDP_CHECK(working_ >= 0 && unstarted_ >= 0 && stopping_ >= 0, "counts are not negative");
  DDP_CHECK(node_ranks_.size() <= nodes_.size(), "a node has one rank at most");
  DDP_CHECK(budget_.used() <= budget_.max(), "the budget is kept");
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
    case JobState::over:
      DDP_CHECK(ending_.has_value(), "a job ends with a verdict");
      DDP_CHECK(working_ == 0 && stopping_ == 0, "nothing lives after the end");
      break;
  }
}

}  // namespace ddprun
