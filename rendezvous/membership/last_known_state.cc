#include "rendezvous/membership/last_known_state.h"

#include <algorithm>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Of the records of an incident the cause is enough for the summary: a hello is small.
JobSummary shortened(JobSummary so_far) {
  for (Incident& incident : so_far.incidents) {
    if (incident.records.size() > 1) {
      incident.records_dropped += static_cast<int>(incident.records.size()) - 1;
      incident.records.resize(1);
    }
  }
  return so_far;
}

}  // namespace

/// What it knows of the coordinator before stays, but a later loss says nothing of that one.
void LastKnownState::follows(bool at_endpoint, const HostIdentity& host) {
  of_leader_ = copy_of_leader_ = false;
  at_endpoint_ = at_endpoint;
  host_ = host;
}

void LastKnownState::leads() {
  at_endpoint_ = false;
  host_ = {};
}

/// The stored state may come to nothing (the plan is dropped), so it never replaces what this node
/// knows of a world that was handed out.
void LastKnownState::told(const ReplicatedState& state, const JobSummary& so_far, Instant now) {
  copy_ = StateCopy{state, shortened(so_far), now, at_endpoint_, host_, false, {}};
  copy_of_leader_ = true;
  if (!past_ || !past_->group_rank) {  // what was in use says more than what may have been
    past_ = Past{state.term, state.attempt, state.configuration.number, {}, 0, at_endpoint_, host_};
    past_->instance = state.instance;
    of_leader_ = true;
  } else if (of_leader_ && past_->instance == state.instance && past_->attempt == state.attempt &&
             state.settled == state.configuration.number) {
    past_->configuration = state.configuration.number;  // of the same world others vote by now
  }
}

void LastKnownState::story(AttemptNumber attempt, const JobSummary& so_far, Instant now) {
  if (!copy_) {
    return;
  }
  DDP_CHECK(past_.has_value(), "a voter that keeps a state remembers the job of it");
  if (attempt > copy_->replicated.attempt) {
    copy_->replicated.attempt = attempt;
    copy_->replicated.before.clear();  // a world of its configuration was handed out
  }
  copy_->so_far = shortened(so_far);
  copy_->told_at = now;
  if (!past_->group_rank) {
    past_->attempt = std::max(past_->attempt, attempt);
  }
}

void LastKnownState::more_nodes(const std::vector<VoterAddress>& nodes) {
  if (!copy_) {
    return;
  }
  std::vector<VoterAddress>& others = copy_->others;
  others.insert(others.end(), nodes.begin(), nodes.end());
  if (others.size() > kOthersMax) {
    others.erase(others.begin(), others.end() - kOthersMax);
  }
  DDP_CHECK(others.size() <= kOthersMax, "a hello is bounded");
}

/// A world that was handed out proves that its configuration is in use, so those before it decide
/// nothing any more.
void LastKnownState::assigned(const Past& world) {
  past_ = world;
  past_->at_endpoint = at_endpoint_;
  past_->host = host_;
  of_leader_ = true;
  if (copy_ && copy_->replicated.instance != world.instance) {
    copy_.reset();
  } else if (copy_ && copy_->replicated.configuration.number == world.configuration) {
    copy_->replicated.before.clear();
  }
}

/// The contact bounds the leases of the old world (old_world_fence.h). It is noted only for the
/// coordinator that handed out that world, or stored that copy here.
void LastKnownState::lost(Instant at, bool saw_close, std::chrono::milliseconds heartbeat_timeout) {
  if (past_ && of_leader_) {
    past_->contact_at = at;
    past_->saw_close = saw_close;
    past_->heartbeat_timeout = heartbeat_timeout;
  }
  if (copy_ && copy_of_leader_) {
    copy_->saw_close = saw_close;
  }
}

void LastKnownState::fill(NodeDescription& node) const {
  DDP_CHECK(past_ || !copy_, "a voter that keeps a state remembers the job of it");
  node.past = past_;
  node.copy = copy_;
}

}  // namespace ddprun
