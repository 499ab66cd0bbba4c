#include "rendezvous/node/service_tenure.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Short beside what a leader's lease has more than the heartbeat timeout, so that little of it is
/// over when the service goes.
constexpr std::chrono::milliseconds kRenewEach{1'000};
/// The state's lease is no vote, and may be renewed rarely: so often while it lasts.
constexpr int kStateRenewals = 4;
constexpr std::chrono::seconds kStateLeaseMin{60};
/// The service's clock may be faster than this one, each by a hundredth of the true rate. A
/// fiftieth of a long lease is more than what a heartbeat timeout has in reserve.
constexpr int kDriftReserve = 50;

/// Services count whole seconds. Upwards: a lease that is shorter than was counted on would be over
/// before its owner stops.
std::chrono::seconds whole(std::chrono::milliseconds time) {
  return std::chrono::ceil<std::chrono::seconds>(time);
}

}  // namespace

TenureLeases TenureLeases::of(std::chrono::milliseconds heartbeat_timeout,
                              std::chrono::milliseconds join_timeout) {
  return {whole(heartbeat_timeout + kServiceAbsence),
          std::max(whole(join_timeout), kStateLeaseMin)};
}

ServiceTenure::ServiceTenure(TenureLeases leases) : leases_(leases) {
  DDP_CHECK(leases_.leader > kRenewEach && leases_.state > kRenewEach,
            "leases are longer than the pause between renewals");
}

std::vector<tenure::Action> ServiceTenure::step(Instant now, tenure::Input input) {
  DDP_CHECK(now >= now_, "time never goes back");
  DDP_CHECK(actions_.empty(), "each action is handed out once");
  now_ = now;
  std::visit([this](auto& one) { on(std::move(one)); }, input);
  return std::exchange(actions_, {});
}

void ServiceTenure::ask(ServiceQuestion question, Purpose purpose) {
  asked_.emplace(++last_ticket_, std::move(purpose));
  actions_.emplace_back(tenure::Ask{last_ticket_, std::move(question)});
}

void ServiceTenure::on(const tenure::Answered& input) {
  const auto found = asked_.find(input.to);
  if (found == asked_.end()) {
    return;
  }
  const Purpose purpose = std::move(found->second);
  asked_.erase(found);
  std::visit([&](const auto& asked) { take(asked, input.answer); }, purpose);
}

// --- To come to lead ------------------------------------------------------------------------

/// The lease comes first, for the entry is written with it. Two wishes may be under way at once:
/// who searches may stop and begin again before the first has its answer.
void ServiceTenure::on(tenure::LeadWished input) {
  ask(GrantLease{leases_.leader}, GrantForLeader{std::move(input), now_});
}

void ServiceTenure::take(const GrantForLeader& asked, const Answer& answer) {
  if (!answer) {
    return done(asked.wish.id, answer.error());
  }
  DDP_CHECK(!answer->lease.empty(), "a lease has a name");
  ask(enter_leader(asked.wish.seen, asked.wish.self, answer->lease),
      EnterLeader{asked.wish, asked.asked_at, answer->lease});
}

/// The lease counts from before it was asked for: the service's clock began later. An answer that
/// got lost may have been a success: the lease is revoked, with which the entry goes. Else all
/// others would follow a leader that does not know that it is one.
void ServiceTenure::take(const EnterLeader& asked, const Answer& answer) {
  if (!answer) {
    revoke(asked.lease);
    return done(asked.wish.id, answer.error());
  }
  if (!answer->done) {
    revoke(asked.lease);
    return done(asked.wish.id, false);
  }
  DDP_CHECK(answer->revision > 0, "what is written has a revision");
  leader_lease_ = asked.lease;
  leader_revision_ = answer->revision;
  state_revision_ = asked.wish.seen.state_revision;
  leads_until_ = proven_from(asked.asked_at);
  renew_at_ = now_ + kRenewEach;
  done(asked.wish.id, true);
  // The state has the lease of who led before. This leader may wait for nodes for longer than that.
  if (!asked.wish.seen.state.empty()) {
    on(tenure::StateGiven{0, asked.wish.seen.state});
  }
}

Instant ServiceTenure::proven_from(Instant asked_at) const {
  return asked_at + leases_.leader - Instant(leases_.leader) / kDriftReserve;
}

/// A lease that is left ends by itself; this is for the one that waits for its end.
void ServiceTenure::revoke(const ServiceLease& lease) {
  if (!lease.empty()) {
    ask(RevokeLease{lease}, Revoke{});
  }
}

// --- To keep the state ----------------------------------------------------------------------

/// The lease of the state comes with the first of them. Two may wait for it: the state that this
/// leader found, and the first of its own. The newer one is enough.
void ServiceTenure::on(tenure::StateGiven input) {
  if (leader_revision_ == 0) {
    done(input.id, false);
  } else if (!state_lease_.empty()) {
    write(input);
  } else if (waits_for_lease_) {
    done(waits_for_lease_->id, Error{"a newer state has taken its place", {}, {}});
    waits_for_lease_ = std::move(input);
  } else {
    waits_for_lease_ = std::move(input);
    ask(GrantLease{leases_.state}, GrantForState{});
  }
}

void ServiceTenure::take(const GrantForState& /*asked*/, const Answer& answer) {
  DDP_CHECK(waits_for_lease_, "a lease is asked for what waits for it");
  const tenure::StateGiven given = std::move(*std::exchange(waits_for_lease_, std::nullopt));
  if (!answer) {
    return done(given.id, answer.error());
  }
  state_lease_ = answer->lease;
  write(given);
}

/// What was to be written is kept, for a lease may end while the service is away.
void ServiceTenure::write(const tenure::StateGiven& given) {
  state_ = given.state;
  if (leader_revision_ == 0) {
    return done(given.id, false);  // it has resigned while the lease was on its way
  }
  ask(write_state(leader_revision_, state_revision_, given.state, state_lease_),
      WriteState{given, leader_revision_, state_revision_, now_});
}

void ServiceTenure::take(const WriteState& asked, const Answer& answer) {
  if (answer && answer->lease_is_over) {
    state_lease_.clear();  // the service was away for longer than that
    return on(asked.given);
  }
  if (!answer) {
    return done(asked.given.id, answer.error());
  }
  if (asked.leader_revision != leader_revision_) {
    return done(asked.given.id, false);  // of a leadership before
  }
  if (answer->done) {
    state_revision_ = answer->revision;
    // At a slow service a renewal waits behind such writes for longer than the lease lasts.
    if (const Instant until = proven_from(asked.asked_at); answer->renews) {
      leads_until_ = std::max(leads_until_, until);
    }
  } else if (answer->leader_revision == leader_revision_) {
    return write_after(answer->state_revision, asked);
  } else {
    lost();
  }
  done(asked.given.id, answer->done);
}

/// It leads, and the state is not the one that it knew: a write was done whose answer got lost, or
/// the state went with its lease. What is there now is what the next write replaces. One that newer
/// ones have followed is not written again.
void ServiceTenure::write_after(std::int64_t state_revision, const WriteState& asked) {
  state_revision_ = state_revision;
  if (state_revision == asked.state_revision || asked.given.state != state_) {
    return done(asked.given.id, Error{"the service refuses to keep the state", {}, {}});
  }
  write(asked.given);
}

void ServiceTenure::done(tenure::WishId wish, Result<bool> done) {
  if (wish != 0) {
    actions_.emplace_back(tenure::Done{wish, std::move(done)});
  }
}

// --- To go on leading -----------------------------------------------------------------------

/// The lease counts from the question: the service begins it anew some time after that.
void ServiceTenure::on(const tenure::TimePassed&) {
  if (!renew_at_ || now_ < *renew_at_) {
    return;
  }
  renew_at_.reset();
  DDP_CHECK(leader_revision_ != 0, "who renews leads");
  ask(RenewLease{leader_lease_}, Renew{now_, leader_lease_});
  if (!state_lease_.empty() && now_ - state_renewed_at_ > leases_.state / kStateRenewals) {
    state_renewed_at_ = now_;
    ask(RenewLease{state_lease_}, RenewState{});
  }
}

void ServiceTenure::take(const Renew& asked, const Answer& answer) {
  if (leader_revision_ == 0 || asked.lease != leader_lease_) {
    return;  // of a leadership before
  }
  if (answer && !answer->done) {
    return lost();  // it is over
  }
  if (answer) {
    leads_until_ = std::max(leads_until_, proven_from(asked.asked_at));
  }
  ask(look_at_leader(leader_revision_), LookAtLeader{leader_revision_});
}

/// Writes anew what a lease took with it: nobody waits for that, but the next leader needs it.
void ServiceTenure::take(const RenewState& /*asked*/, const Answer& answer) {
  if (answer && !answer->done && leader_revision_ != 0) {
    state_lease_.clear();  // it is over, and the state went with it
    on(tenure::StateGiven{0, state_});
  }
}

/// The lease may live while the entry does not: people have tools to remove it. The next renewal
/// waits for this answer, so that questions do not pile up at a service that is slow.
void ServiceTenure::take(const LookAtLeader& asked, const Answer& answer) {
  if (leader_revision_ != asked.revision) {
    return;  // of a leadership before
  }
  if (answer && !answer->done) {
    return lost();
  }
  renew_at_ = now_ + kRenewEach;
}

/// Somebody else leads, or the service has forgotten this leader. Nothing of it is renewed: the
/// lease of a leader that was replaced would keep nothing alive.
void ServiceTenure::lost() {
  leader_revision_ = 0;
  leads_until_ = Instant{};
  renew_at_.reset();
}

// --- To end ---------------------------------------------------------------------------------

/// Nothing is renewed any more.
void ServiceTenure::on(tenure::ResignWished input) {
  renew_at_.reset();
  leads_until_ = Instant{};
  const std::int64_t revision = std::exchange(leader_revision_, 0);
  if (revision == 0) {
    return done(input.id, true);
  }
  ask(remove_leader(revision, input.job_is_over), Resign{input.id});
  revoke(std::exchange(leader_lease_, {}));
  if (input.job_is_over) {
    revoke(std::exchange(state_lease_, {}));
  }
  state_lease_.clear();
}

/// Those that follow this leader stop when their own leases end, which they count from its contact
/// with the service. If the entry went at once, the next leader would not know of them: it would
/// find nobody entered, as after a lease that has ended.
void ServiceTenure::on(const tenure::LetGo&) {
  lost();
  leader_lease_.clear();
  state_lease_.clear();
}

void ServiceTenure::take(const Resign& asked, const Answer& answer) {
  answer ? done(asked.wish, answer->done) : done(asked.wish, answer.error());
}

}  // namespace ddprun
