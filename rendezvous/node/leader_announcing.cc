// The part of Leader that announces it: to nodes that are away, and at the endpoints of the job.
#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/node/leader.h"
#include "rendezvous/node/leader_call.h"
#include "rendezvous/node/peer_addresses.h"

namespace ddprun {
namespace {

/// Two nodes that wait for each other do so for the longest interval at most.
constexpr std::chrono::milliseconds kPauseMax{2'000};

}  // namespace

/// What both kinds of calls have in common: which coordinator to follow, in which job and term.
message::Follow Leader::call() const {
  return {options_.membership.job_id,
          term(),
          options_.addresses,
          options_.port,
          std::nullopt,
          membership_.leadership().in_use().instance,
          {}};
}

/// An agent that looks for the job gives up after the join timeout. Voters stay: without them no
/// quorum may be found, however long they are away.
void Leader::forget_absent() {
  addresses_.forget(now_ - options_.membership.join_timeout, membership_.leadership().acquainted());
}

/// Voters that do not follow are called, and the endpoints while any node is missing. An agent that
/// has just started there is no voter, and its own port is in no list.
void Leader::call_others() {
  if (deposed_ || membership_.state() == JobState::over) {
    calls_.due.reset();
  }
  if (!calls_.due || *calls_.due > now_) {
    return;
  }
  DDP_CHECK(calls_.interval.count() > 0, "calls come at intervals");
  calls_.due = now_ + calls_.interval;
  calls_.interval = std::min(2 * calls_.interval, kPauseMax);
  forget_absent();
  const std::vector<VoterId> absent = addresses_.absent();
  CallVoters voters;
  for (const VoterId voter : absent) {
    const auto* place = addresses_.find(voter);
    DDP_CHECK(place != nullptr, "a node that is away is listed with its addresses");
    voters.calls.push_back({*place, call()});
    auto& [to, call] = voters.calls.back();
    to.addresses = addresses_to_try(to.addresses, options_.addresses);
    call.voter = voter;
  }
  outbox_.add(std::move(voters));
  const auto wanted = static_cast<std::size_t>(options_.membership.max_nodes);
  if (membership_.workers_here() < wanted || !absent.empty()) {
    CallEndpoints endpoints{call()};
    endpoints.call.to_endpoint = job_options(options_.membership);
    outbox_.add(std::move(endpoints));
  }
}

/// A leader that learns of a later term steps down (Ongaro's dissertation, section 3.3). The answer
/// comes from an agent of that term, so the search begins there.
void Leader::on(const CallAnswered& input) {
  const JobInstance instance = membership_.leadership().in_use().instance;
  if (input.term > term() && input.instance == instance) {
    message::Follow other = call();
    other.term = input.term;
    other.addresses = input.from.addresses;
    other.port = input.from.port;
    step_down("a coordinator of a later term leads", std::move(other));
  }
}

/// Whatever instance the other one has: of two that began the job, the service has chosen it.
void Leader::on(const LedByAnother& input) {
  std::optional<message::Follow> by;
  if (input.other) {
    by = call();
    by->term = input.other->term;
    by->instance = input.other->instance;
    by->addresses = input.other->addresses;
    by->port = input.other->port;
  }
  step_down(options_.service + (by ? " lets another one lead" : " has no entry of it any more"),
            std::move(by));
}

}  // namespace ddprun
