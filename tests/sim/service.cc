#include "tests/sim/service.h"

#include <algorithm>

#include "rendezvous/base/check.h"
#include "rendezvous/node/committed_state.h"

namespace ddprun::sim {
namespace {

/// What a question, and an answer, takes at a service that is slow: some are in time, others not.
constexpr Duration kSlowTrip = milliseconds(2'500);
/// How late a question may be done whose asker has given it up.
constexpr Duration kLateMax = seconds(6);
/// The chances that a question which is not answered is done all the same, and that an answer is
/// lost where some are.
constexpr double kDoneLate = 0.3;
constexpr double kLost = 0.4;

}  // namespace

Service::Service(Timeline& timeline, const SimOptions& options)
    : timeline_(timeline),
      options_(options),
      random_(options.seed, 6),
      rate_(1 + options.clock_drift * (2 * random_.fraction() - 1)) {}

// --- Reach ----------------------------------------------------------------------------------

bool Service::serves(int machine) const {
  return away_ == 0 && slow_ == 0 && losing_ == 0 && !cut_off_.contains(machine);
}

Duration Service::trip() {
  return random_.up_to(slow_ > 0 ? kSlowTrip : options_.delay_max);
}

void Service::ask(int from, const ServiceQuestion& question, OnReply on_reply) {
  const auto reaches = [this, from] { return away_ == 0 && !cut_off_.contains(from); };
  const bool in_time = reaches() && (losing_ == 0 || !random_.chance(kLost));
  if (!in_time) {
    if (random_.chance(kDoneLate)) {
      timeline_.at(timeline_.now() + random_.up_to(kLateMax), [this, reaches, question] {
        if (reaches()) {
          apply(question);
        }
      });
    }
    return;
  }
  timeline_.at(timeline_.now() + trip(), [this, reaches, question, on_reply = std::move(on_reply)] {
    if (!reaches()) {
      return;
    }
    const Reply reply = apply(question);
    if (losing_ > 0 && random_.chance(kLost)) {
      return;
    }
    timeline_.at(timeline_.now() + trip(), [reaches, reply, on_reply] {
      if (reaches()) {
        on_reply(reply);
      }
    });
  });
}

void Service::count(int& counter, Duration lasts) {
  ++counter;
  timeline_.at(timeline_.now() + lasts, [&counter] { --counter; });
}

void Service::strike(const Fault& fault) {
  was_in_trouble_ = true;
  switch (fault.kind) {
    case FaultKind::service_away:
      count(away_, fault.lasts);
      break;
    case FaultKind::service_slow:
      count(slow_, fault.lasts);
      break;
    case FaultKind::service_loss:
      count(losing_, fault.lasts);
      break;
    case FaultKind::service_cut:
      for (int i = 0; i < fault.span; ++i) {
        const int machine = (fault.target + i) % options_.machines();
        ++cut_off_[machine];
        timeline_.at(timeline_.now() + fault.lasts, [this, machine] {
          if (--cut_off_[machine] == 0) {
            cut_off_.erase(machine);
          }
        });
      }
      break;
    case FaultKind::service_erasure:
      ++revision_;
      leader_ = {};
      break;
    default:
      DDP_CHECK(false, "this fault is no service's");
  }
}

// --- Keys and leases ------------------------------------------------------------------------

Duration Service::ends_at(Duration lasts) const {
  return timeline_.now() +
         Duration(static_cast<std::int64_t>(static_cast<double>(lasts.count()) / rate_));
}

void Service::end_lease(const ServiceLease& lease) {
  ++revision_;
  leases_.erase(lease);
  if (leader_.lease == lease) {
    leader_ = {};
  }
  if (state_.lease == lease) {
    state_ = {};
    has_forgotten_ = true;
  }
}

void Service::expire() {
  for (auto at = leases_.begin(); at != leases_.end();) {
    const auto [name, lease] = *at++;
    if (lease.ends <= timeline_.now()) {
      if (leader_.value && leader_.lease == name) {
        lease_is_over_ = true;
        outlived_.insert(leader_.value->voter);
      }
      end_lease(name);
    }
  }
}

bool Service::lease_is_over() {
  expire();
  return lease_is_over_;
}

bool Service::lease_is_over(VoterId leader) {
  expire();
  return outlived_.contains(leader);
}

Service::Reply Service::apply(const ServiceQuestion& question) {
  expire();
  Reply reply;
  reply.view = {leader_.value,
                term_.value.value_or(Term{}),
                state_.value.value_or(""),
                leader_.revision,
                term_.revision,
                state_.revision};
  reply.answer = std::visit([this](const auto& one) { return carry_out(one); }, question);
  return reply;
}

ServiceAnswer Service::carry_out(const GrantLease& question) {
  const ServiceLease name = std::to_string(++last_lease_);
  leases_[name] = {question.lasts, ends_at(question.lasts)};
  return {true, 0, name, false};
}

ServiceAnswer Service::carry_out(const RenewLease& question) {
  const auto found = leases_.find(question.lease);
  if (found == leases_.end()) {
    return {};
  }
  found->second.ends = ends_at(found->second.lasts);
  return {true, 0, {}, false};
}

ServiceAnswer Service::carry_out(const RevokeLease& question) {
  if (leases_.contains(question.lease)) {
    end_lease(question.lease);
  }
  return {true, 0, {}, false};
}

ServiceAnswer Service::carry_out(const ServiceTransaction& question) {
  const auto holds = [](const std::optional<std::int64_t>& wanted, std::int64_t revision) {
    return !wanted || *wanted == revision;
  };
  if (!holds(question.leader_is, leader_.revision) || !holds(question.term_is, term_.revision) ||
      !holds(question.state_is, state_.revision)) {
    return {false, 0, {}, false, leader_.revision, state_.revision};
  }
  for (const auto& [writes, lease] :
       {std::pair(question.leader.has_value(), question.leader_lease),
        std::pair(question.state.has_value(), question.state_lease)}) {
    if (writes && !leases_.contains(lease)) {
      return {false, 0, {}, true};
    }
  }
  ++revision_;
  if (question.leader) {
    leader_ = {question.leader, revision_, question.leader_lease};
    lease_is_over_ = false;
    outlived_.erase(question.leader->voter);
  }
  if (question.term) {
    term_ = {question.term, revision_, {}};
  }
  if (question.state) {
    state_ = {question.state, revision_, question.state_lease};
    note_state(*question.state);
  }
  if (question.erases_leader) {
    leader_ = {};
  }
  if (question.erases_job) {
    state_ = {};
    term_ = {};
    has_forgotten_ = true;
  }
  return {true, revision_, {}, false};
}

void Service::note_state(const std::string& state) {
  const auto read = committed_state(state);
  DDP_CHECK(read && *read, "what is committed can be read");
  has_kept_end_ = has_kept_end_ || (*read)->replicated.ends;
  kept_.insert((*read)->replicated.configuration.number);
}

}  // namespace ddprun::sim
