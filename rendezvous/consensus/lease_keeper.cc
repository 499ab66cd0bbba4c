#include "rendezvous/consensus/lease_keeper.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rendezvous/base/check.h"

namespace ddprun {
namespace {

/// Leaves room for all the transactions that there can be.
constexpr std::uint64_t kFirstRevisionMax = 1ULL << 48;

void drop_leader(JobLease& lease) {
  lease.view.leader.reset();
  lease.view.leader_revision = 0;
  lease.leader_lease.clear();
}

/// A state without a revision is not written: it is not there.
void drop_state(JobLease& lease) {
  lease.view.state.clear();
  lease.view.state_revision = 0;
  lease.state_lease.clear();
  lease.state_lasts = {};
}

/// None: it does not matter.
bool holds(const std::optional<std::int64_t>& wanted, std::int64_t revision) {
  return !wanted || *wanted == revision;
}

/// Else it only looks.
bool writes(const ServiceTransaction& question) {
  return question.leader || question.term || question.state || question.erases_leader ||
         question.erases_job;
}

}  // namespace

/// Revisions begin at random, so that those of a Lease which somebody deletes are not taken for
/// those of the next one.
LeaseKeeper::LeaseKeeper(Owner owner, TenureLeases leases)
    : owner_(std::move(owner)),
      leases_(leases),
      prefix_(fmt::format("{:016x}-", owner_.drawn)),
      newest_revision_(static_cast<std::int64_t>(owner_.drawn % kFirstRevisionMax)) {
  DDP_CHECK(!owner_.job_id.empty() && !owner_.holder.empty(), "a Lease has a job and a holder");
  DDP_CHECK(leases_.leader.count() > 0 && leases_.state.count() > 0, "leases last");
}

std::string LeaseKeeper::new_name() {
  return prefix_ + std::to_string(++names_);
}

bool LeaseKeeper::is_own(const ServiceLease& lease) const {
  return lease.starts_with(prefix_);
}

/// Each write of ours names another writer, so what others change in the object renews nothing. A
/// lease counts from the answer: when the server had that object is not known, but it was before.
void LeaseKeeper::saw(Instant now, JobLease lease) {
  DDP_CHECK(now >= unchanged_since_, "time never goes back");
  const bool is_same = lease.writer == seen_.writer &&
                       lease.resource_version.empty() == seen_.resource_version.empty();
  if (!is_same) {
    unchanged_since_ = now;
  }
  newest_revision_ = std::max(newest_revision_, lease.revision);
  seen_ = std::move(lease);
}

/// Without what is over. Who reads this much later than another one judges later, which is safe;
/// nobody judges before the lease has passed since an answer that had this very object.
JobLease LeaseKeeper::current(Moment at) const {
  JobLease lease = seen_;
  const Instant unchanged = at.now - unchanged_since_;
  if (lease.view.leader && !is_own(lease.leader_lease) && unchanged >= lease.leader_lasts) {
    drop_leader(lease);
  }
  const bool is_old = at.wall - lease.renewed > lease.state_lasts && unchanged >= leases_.leader;
  if (!lease.view.leader && (unchanged >= lease.state_lasts || is_old)) {
    drop_state(lease);
  }
  return lease;
}

/// What this process has written is what it was asked to write: nobody else has its mark. Where a
/// write and more of others are done before anybody looks, it is told as one that was refused: by
/// then somebody else leads, or the revisions are those of another write (ServiceTenure's
/// write_after).
LeaseKeeper::Decision LeaseKeeper::decide(const ServiceQuestion& question, const std::string& mark,
                                          Moment at) const {
  DDP_CHECK(is_own(mark), "who asks has a name of its own for it");
  JobLease lease = current(at);
  if (lease.writer == mark && lease.revision > 0) {  // somebody may have removed the rest
    return ServiceAnswer{true, lease.revision, {}, false};
  }
  if (const auto* renew = std::get_if<RenewLease>(&question)) {
    return decide_on(*renew, std::move(lease), mark, at);
  }
  if (const auto* revoke = std::get_if<RevokeLease>(&question)) {
    return decide_on(*revoke, std::move(lease), mark, at);
  }
  const auto* transaction = std::get_if<ServiceTransaction>(&question);
  DDP_CHECK(transaction != nullptr, "the others need no decision");
  return decide_on(*transaction, std::move(lease), mark, at);
}

/// Each write renews: whoever writes is there. The time is for people, who read `kubectl get
/// lease`.
LeaseKeeper::Decision LeaseKeeper::written(JobLease lease, const std::string& mark,
                                           ServiceAnswer done, Moment at) const {
  lease.writer = mark;
  lease.renewed = at.wall;
  if (lease.view.leader && is_own(lease.leader_lease)) {
    lease.leader_lasts = leases_.leader;  // whatever somebody wrote there meanwhile
  }
  auto body = body_of(lease, owner_.job_id);
  if (!body) {
    return body.error();
  }
  return Write{lease.resource_version.empty(), std::move(*body), std::move(done)};
}

/// A lease that is still there may be renewed however late it is: nobody was let in meanwhile. One
/// renewal is that of both leases, since they are of one object.
LeaseKeeper::Decision LeaseKeeper::decide_on(const RenewLease& question, JobLease lease,
                                             const std::string& mark, Moment at) const {
  DDP_CHECK(is_own(question.lease), "each process renews its own");
  if (lease.leader_lease != question.lease && lease.state_lease != question.lease) {
    return ServiceAnswer{};
  }
  return written(std::move(lease), mark, {true, 0, {}, false}, at);
}

/// Both leases of a leader that has resigned may be gone already: that is done, too.
LeaseKeeper::Decision LeaseKeeper::decide_on(const RevokeLease& question, JobLease lease,
                                             const std::string& mark, Moment at) const {
  const ServiceAnswer done{true, 0, {}, false};
  const bool of_leader = lease.leader_lease == question.lease;
  const bool of_state = lease.state_lease == question.lease;
  if (question.lease.empty() || (!of_leader && !of_state)) {
    return done;
  }
  if (of_leader) {
    drop_leader(lease);
  }
  if (of_state) {
    drop_state(lease);
  }
  return written(std::move(lease), mark, done, at);
}

/// On what counts now, so what is over is not written again: it goes with the next transaction.
LeaseKeeper::Decision LeaseKeeper::decide_on(const ServiceTransaction& question, JobLease lease,
                                             const std::string& mark, Moment at) const {
  ServiceView& view = lease.view;
  if (!holds(question.leader_is, view.leader_revision) ||
      !holds(question.term_is, view.term_revision) ||
      !holds(question.state_is, view.state_revision)) {
    return ServiceAnswer{false, 0, {}, false, view.leader_revision, view.state_revision};
  }
  if (!writes(question)) {
    return ServiceAnswer{true, std::max<std::int64_t>(lease.revision, 1), {}, false};
  }
  lease.revision = newest_revision_ + 1;
  if (question.leader) {
    DDP_CHECK(is_own(question.leader_lease), "each process enters itself");
    lease.transitions += !lease.resource_version.empty() && lease.holder != owner_.holder ? 1 : 0;
    lease.holder = owner_.holder;
    lease.acquired = at.wall;
    lease.leader_lasts = leases_.leader;
    lease.leader_lease = question.leader_lease;
    view.leader = question.leader;
    view.leader_revision = lease.revision;
  }
  if (question.term) {
    view.newest_term = *question.term;
    view.term_revision = lease.revision;
  }
  if (question.state) {
    view.state = *question.state;
    view.state_revision = lease.revision;
    lease.state_lease = question.state_lease;
    lease.state_lasts = leases_.state;
  }
  if (question.erases_leader) {
    drop_leader(lease);
  }
  if (question.erases_job) {
    drop_state(lease);
    view.newest_term = {};
    view.term_revision = 0;
  }
  // Others count a leader's lease from the newest object, whatever was written there.
  const bool renews = view.leader && is_own(lease.leader_lease);
  const ServiceAnswer done{true, lease.revision, {}, false, 0, 0, renews};
  return written(std::move(lease), mark, done, at);
}

}  // namespace ddprun
