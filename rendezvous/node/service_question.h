// What a consensus service keeps of a job, and what it is asked: three keys of a store that is
// linearizable and has leases, as etcd's is (docs/etcd.md). Plain values. How a question is written
// is the service's (consensus/etcd_records).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/membership/configuration.h"
#include "rendezvous/membership/event.h"

namespace ddprun {

/// The coordinator of a job, as it entered itself.
struct LeaderRecord {
  Term term{};
  VoterId voter{};
  JobInstance instance{};
  std::vector<std::string> addresses;  ///< numeric
  std::uint16_t port = 0;

  friend bool operator==(const LeaderRecord&, const LeaderRecord&) = default;
};

/// What the service has of a job, all at one moment.
struct ServiceView {
  std::optional<LeaderRecord> leader;  ///< none: its lease is over, or it has resigned
  Term newest_term{};                  ///< of all leaders so far; 0: nobody has led yet
  /// As committed: whole frames (protocol/frame.h), a VoterState first. Empty: none.
  std::string state;
  // By which a change since then is told (etcd's revisions).
  std::int64_t leader_revision = 0;
  std::int64_t term_revision = 0;
  std::int64_t state_revision = 0;
};

/// The name of a lease, which the service chooses. A key that is written with it goes with it.
using ServiceLease = std::string;

/// ServiceView is the answer.
struct ReadView {};
struct GrantLease {
  std::chrono::seconds lasts{};
};
struct RenewLease {
  ServiceLease lease;
};
struct RevokeLease {
  ServiceLease lease;
};
/// All of it at one moment, or nothing: where a condition does not hold nothing is written.
struct ServiceTransaction {
  // The key was last written in that revision; 0: there is none. None: it does not matter.
  std::optional<std::int64_t> leader_is;
  std::optional<std::int64_t> term_is;
  std::optional<std::int64_t> state_is;
  // What is written.
  std::optional<LeaderRecord> leader;
  ServiceLease leader_lease;
  std::optional<Term> term;  ///< without a lease, so it rises for as long as the job is remembered
  std::optional<std::string> state;
  ServiceLease state_lease;
  // What is removed.
  bool erases_leader = false;
  bool erases_job = false;  ///< the term and the state
};

using ServiceQuestion =
    std::variant<ReadView, GrantLease, RenewLease, RevokeLease, ServiceTransaction>;

/// To all but ReadView. An error is no answer: what was asked may have been done, or may be yet.
struct ServiceAnswer {
  bool done = false;  ///< the conditions held; the lease is renewed, so it was not over
  /// Of a transaction that was done: its revision. Larger than 0.
  std::int64_t revision = 0;
  ServiceLease lease;          ///< of GrantLease; not empty
  bool lease_is_over = false;  ///< of a transaction: that it was to write with
  // Of a transaction whose conditions did not hold: the revisions of these keys at that moment.
  std::int64_t leader_revision = 0;
  std::int64_t state_revision = 0;
  bool renews = false;  ///< of a transaction that was done: it has renewed the leader's lease, too
};

/// Becomes the leader, if nothing has changed since `seen`.
ServiceTransaction enter_leader(const ServiceView& seen, const LeaderRecord& self,
                                const ServiceLease& lease);
/// Writes the state, if the entry of `leader_revision` is there still, and the state before is that
/// of `state_revision`.
ServiceTransaction write_state(std::int64_t leader_revision, std::int64_t state_revision,
                               const std::string& state, const ServiceLease& lease);
/// Writes nothing: is the entry of `leader_revision` there still?
ServiceTransaction look_at_leader(std::int64_t leader_revision);
/// Removes that entry, if it is there still, and all of the job where that is over.
ServiceTransaction remove_leader(std::int64_t leader_revision, bool job_is_over);

}  // namespace ddprun
