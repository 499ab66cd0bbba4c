// Membership: what follows when the workers of a node make no progress.
#include <algorithm>
#include <iterator>
#include <vector>

#include "rendezvous/membership/membership.h"

namespace ddprun {

/// Which rank is late only all nodes together can tell: so all are asked where their workers
/// stand, by the order to stop.
void Membership::on(const WorkersHung& event) {
  Node* node = member(event.node, event.attempt);
  if (node == nullptr || node->phase == Phase::finished || node->phase == Phase::stopped) {
    return;
  }
  if (state_ == JobState::running) {
    incident().hung(now_);
  } else if (!incident_) {
    return;  // the job is being ended on request
  }
  add_positions(*node, event.positions);
  if (state_ == JobState::running) {
    begin_stop(event.why + " on " + node->host_name + " (--hang-timeout)", StopHow::hang);
  }
}

/// What a node says of others than itself is not believed.
void Membership::add_positions(const Node& node, const std::vector<WorkerPosition>& positions) {
  std::vector<WorkerPosition> own;
  std::copy_if(positions.begin(), positions.end(), std::back_inserter(own), [&](const auto& one) {
    return one.rank >= node.base_rank && one.rank < node.base_rank + node.local_world_size;
  });
  incident_->add_positions(node.host_name, node.last_group_rank.value_or(0), own);
}

}  // namespace ddprun
