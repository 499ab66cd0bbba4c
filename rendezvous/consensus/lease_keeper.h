// LeaseKeeper: what a job's Lease means to one process, and what comes of a question about it. The
// leases, transactions and revisions that etcd has are made here, of an object that Kubernetes only
// keeps. Pure; its owner asks for objects and writes them (lease_exchange).
//
// A transaction is a write of the object that was read: the server refuses it where somebody has
// written meanwhile. Nothing expires by itself: whoever looks judges, by its own steady clock, as
// client-go's leader election does. A leader is gone once its Lease was seen unchanged for as long
// as it lasts. That of this very process is not: whoever is let in its place writes the object.
// A state is forgotten once nobody leads and it was seen unchanged for as long as it lasts, or for
// a leader's lease where the clock on the wall says that it is older than that: so a new run does
// not wait for what was left yesterday. Two clocks on two walls decide about nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "rendezvous/consensus/kubernetes_lease.h"
#include "rendezvous/node/service_question.h"
#include "rendezvous/node/service_tenure.h"

namespace ddprun {

class LeaseKeeper {
 public:
  struct Owner {
    std::string job_id;
    std::string holder;     ///< this process, for people
    std::uint64_t drawn{};  ///< at random, another one for each process
  };
  struct Moment {
    Instant now{};
    WallTime wall{};
  };
  /// The object is to be written: by POST where `creates`, else by PUT. If the server has done so,
  /// `done` is the answer.
  struct Write {
    bool creates = false;
    std::string body;
    ServiceAnswer done;
  };
  /// The error is of a state that is too large.
  using Decision = std::variant<ServiceAnswer, Write, Error>;

  LeaseKeeper(Owner owner, TenureLeases leases);

  /// A name that nothing else has, in this process or another.
  std::string new_name();
  /// Such is the object, by an answer that came at `now`.
  void saw(Instant now, JobLease lease);
  [[nodiscard]] ServiceView view(Moment at) const { return current(at).view; }
  /// Of a RenewLease, RevokeLease or ServiceTransaction, by what was seen last. `mark`: its own
  /// new_name(), by which a write is known whose answer got lost. An answer holds if what was seen
  /// is new.
  [[nodiscard]] Decision decide(const ServiceQuestion& question, const std::string& mark,
                                Moment at) const;

 private:
  [[nodiscard]] JobLease current(Moment at) const;
  [[nodiscard]] bool is_own(const ServiceLease& lease) const;
  [[nodiscard]] Decision written(JobLease lease, const std::string& mark, ServiceAnswer done,
                                 Moment at) const;
  [[nodiscard]] Decision decide_on(const RenewLease& question, JobLease lease,
                                   const std::string& mark, Moment at) const;
  [[nodiscard]] Decision decide_on(const RevokeLease& question, JobLease lease,
                                   const std::string& mark, Moment at) const;
  [[nodiscard]] Decision decide_on(const ServiceTransaction& question, JobLease lease,
                                   const std::string& mark, Moment at) const;

  Owner owner_;
  TenureLeases leases_;
  std::string prefix_;  ///< of all names of this process
  std::uint64_t names_ = 0;
  JobLease seen_;
  Instant unchanged_since_{};
  std::int64_t newest_revision_;
};

}  // namespace ddprun
