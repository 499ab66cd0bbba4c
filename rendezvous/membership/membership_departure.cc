// The part of Membership that deals with agents that are asked to stop, and with nodes that leave
// in order or cannot go on. What is saved first is the workers' to do; this only asks.
#include <utility>

#include "rendezvous/base/check.h"
#include "rendezvous/base/signal_name.h"
#include "rendezvous/membership/membership.h"

namespace ddprun {
namespace {

std::string clause_of(const StopRequested& event, const std::string& host_name) {
  if (!event.notice.empty()) {
    return "node " + host_name + " has a preemption notice (" + event.notice + ")";
  }
  return event.signal == 0
             ? "the deadline of node " + host_name + " has come"
             : signal_name(event.signal) + " was sent to the agent of node " + host_name;
}

}  // namespace

void Membership::on(const StopRequested& event) {
  if (contenders_.take(event.node)) {
    // It is no node of the job: only its own wait ends.
    commands_.push_back(
        Reject{event.node,
               (!event.notice.empty() ? "its machine goes (" + event.notice + ")"
                : event.signal == 0   ? "its deadline came"
                                      : signal_name(event.signal) + " was sent to its agent") +
                   " while it waited for its rank",
               {}});
    return;
  }
  JobNode* node = nodes_.find(event.node);
  if (node == nullptr || course_.state() == JobState::over) {
    return;
  }
  const std::string why = clause_of(event, node->host_name);
  const bool again = event.wish != StopWish::leave && std::exchange(node->asked, true);
  if (course_.state() == JobState::ending) {
    const bool ends = event.wish == StopWish::end;
    course_.end_here({ends ? Verdict::stopped : Verdict::preempted, why, event.signal}, again);
    return;
  }
  switch (event.wish) {
    case StopWish::end:
      // A stop wins over whatever else ends the job: a scheduler that signals all its processes at
      // once makes workers fail a moment before the agents say why.
      if (!course_.ending() || course_.ending()->verdict != Verdict::stopped) {
        course_.end_job({Verdict::stopped, why, event.signal});
      }
      break;
    case StopWish::preempt:
      course_.preempt({Verdict::preempted, why, event.signal});
      break;
    case StopWish::leave:
      let_go(event.node, *node, event.signal);
      break;
  }
}

/// The node leaves in order, and the others go on without it.
void Membership::let_go(NodeId id, JobNode& node, int signal) {
  DDP_CHECK(course_.state() != JobState::ending && course_.state() != JobState::over,
            "nobody leaves a job whose end is decided");
  if (node.leaving || attempt_.any_finished()) {
    return;  // it is about to leave, or all are
  }
  const JobState state = course_.state();
  // A successor that has handed out nothing yet was asked before, and others are on their way.
  const bool comes_after = options_.inheritance && !attempt_.number();
  const bool others_can_run = nodes_.workers_here() > (node.witness ? 0 : 1);
  const bool host_goes = node.hosts_coordinator || nodes_.host_that_left() != nullptr;
  const bool is_last = state == JobState::gathering ? !others_can_run && host_goes && !comes_after
                                                    : !node.witness && !others_can_run;
  if (is_last) {
    course_.preempt(last_left(node.host_name, signal));
    return;
  }
  if (node.hosts_coordinator) {
    node.left_by = signal;
  }
  if (node.witness && node.hosts_coordinator) {
    tell_turn(id,
              "this node runs no workers, and stays as the coordinator of the others until the job "
              "ends");
    return;
  }
  if (node.hosts_coordinator) {
    // Nobody could take the job over without a moment in which nobody decides for it: this node
    // goes on for the others, without workers.
    nodes_.becomes_witness(node);
    tell_turn(id,
              "this node runs no workers any more, and goes on as the coordinator of the others");
  } else {
    nodes_.begins_to_leave(node);
  }
  if (state == JobState::running && node.phase == NodePhase::working) {
    attempt_.stop_for_leaver(node, now_);
  } else if (state == JobState::gathering || state == JobState::running) {
    course_.idle_node_leaves(node);
  }
}

void Membership::on(const NodeGaveUp& event) {
  JobNode* node = nodes_.find(event.node);
  if (node == nullptr || course_.ending()) {
    return;
  }
  // A node that no attempt needs does not end the job (complaint I-27); it will leave by itself.
  const bool is_needed = node->phase != NodePhase::idle || course_.state() == JobState::gathering;
  if (node->leaving || node->phase == NodePhase::finished || !is_needed) {
    return;
  }
  const auto others = static_cast<int>(nodes_.workers_here()) - (node->witness ? 0 : 1);
  // Later on another node may come in its place, as for any that is lost.
  const std::optional<AttemptNumber> attempt = attempt_.number();
  const bool replaceable = attempt && number(*attempt) > 0 && !node->hosts_coordinator;
  if (others >= options_.min_nodes || replaceable) {
    go_on_without(event.node, *node, event.why);
  } else {
    course_.end_job({Verdict::impossible, "node " + node->host_name + ": " + event.why, 0});
  }
}

/// The node cannot run workers, and says why. Its agent ends by itself; but that of the coordinator
/// goes on for the others, without workers.
void Membership::go_on_without(NodeId id, JobNode& node, const std::string& why) {
  DDP_CHECK(!course_.ending(), "a job whose end is decided goes on with nobody");
  if (node.hosts_coordinator) {
    nodes_.becomes_witness(node);
    tell_turn(id, "this node runs no workers (" + why +
                      "), and goes on as the coordinator of the others");
  } else {
    nodes_.begins_to_leave(node);
    node.released = true;
  }
  if (node.phase == NodePhase::idle) {
    course_.idle_node_leaves(node);
  } else {
    attempt_.gave_up(node, why, now_);
    course_.attempt_changed();
  }
}

}  // namespace ddprun
