#include "agent/operations/job_snapshot.h"

#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/node/follower_state.h"

namespace ddprun {
namespace {

// Both are words of docs/operations.md, so they are not those of a log.

const char* name_of(JobState state) {
  switch (state) {
    case JobState::gathering:
      return "gathering";
    case JobState::running:
      return "running";
    case JobState::stopping:
      return "stopping";
    case JobState::ending:
      return "ending";
    case JobState::over:
      return "over";
  }
  return "";
}

/// A witness has no workers, so it waits for no world.
const char* name_of(const JobNode& node) {
  switch (node.phase) {
    case NodePhase::idle:
      return node.witness ? "witness" : "waiting";
    case NodePhase::working:
      return "working";
    case NodePhase::finished:
      return "finished";
    case NodePhase::stopping:
      return "stopping";
    case NodePhase::stopped:
      return "stopped";
  }
  return "";
}

/// A node's number is that of its connection: after a failover it has another one.
NodeSnapshot snapshot_of(NodeId id, const JobNode& node, Instant now) {
  NodeSnapshot shown;
  shown.id = id;
  shown.host = node.host_name;
  shown.address = node.address;
  shown.state = name_of(node);
  shown.leaving = node.leaving;
  shown.hosts_coordinator = node.hosts_coordinator;
  shown.workers = node.witness ? 0 : node.local_world_size;
  // Of a node that waits it is the rank of an attempt before, which says nothing any more.
  if (node.phase != NodePhase::idle) {
    shown.first_rank = node.base_rank;
  }
  shown.here_for = now - node.joined_at;
  return shown;
}

}  // namespace

/// By value, and at once: what is shown is written while the job goes on.
JobView view_of(const Membership& membership, Instant now) {
  MembershipView known = membership.view(now);
  JobView view;
  view.source = JobView::Source::coordinator;
  view.state = name_of(membership.state());
  view.ends = known.ends;
  view.told = std::move(known.so_far);
  view.knows_nodes = true;
  for (const auto& [id, node] : known.nodes.all()) {
    view.nodes.push_back(snapshot_of(id, node, now));
  }
  // The rows that people are shown while the job waits, and as many.
  known.absent.fill(view.absent, now);
  DDP_CHECK(view.nodes.size() == membership.nodes(), "every node of the job is shown");
  return view;
}

/// A copy tells of no state and of no node: it is for who goes on after a loss, and then both are
/// new.
JobView view_of(const FollowerState& known, Instant now) {
  JobView view;
  if (const auto& stored = known.stored()) {
    DDP_CHECK(known.stored_at() <= now, "a copy is from before");
    view.source = JobView::Source::copy;
    view.age = now - known.stored_at();
    view.told = stored->so_far;
  }
  return view;
}

}  // namespace ddprun
