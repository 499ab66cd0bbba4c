// ConsensusService: what a cluster has outside of a job's nodes and can be trusted to decide: who
// leads the job, and what its newest replicated state is (etcd; docs/etcd.md). With it no node
// votes: whoever the service lets lead is the coordinator, and the loss of all other nodes stops
// nothing. An implementation lives on the agent's loop, and outlives who uses it.
//
// The four calls of such a service: lead (acquire; it renews by itself), read, commit (compare and
// set) and, in place of a watch, reading again: only nodes that have no coordinator ask.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
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
};

class ConsensusService {
 public:
  using OnView = std::function<void(const Result<ServiceView>& view)>;
  using OnDone = std::function<void(const Result<bool>& done)>;

  ConsensusService() = default;
  ConsensusService(const ConsensusService&) = delete;
  ConsensusService& operator=(const ConsensusService&) = delete;
  virtual ~ConsensusService() = default;

  virtual void read(OnView on_view) = 0;
  /// Becomes the leader, if nothing has changed since `seen`: where it names a leader, that one is
  /// known to be dead and is replaced. False: somebody else was faster. From then on the lease is
  /// renewed until resign().
  virtual void lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) = 0;
  /// While it leads: until then, by this process' steady clock, nobody else can. In the past once
  /// another one does. It is renewed to this much more than the heartbeat timeout.
  [[nodiscard]] virtual Instant leads_until() const = 0;
  /// The newest state that was given is written, if this process leads still; false: it does not.
  /// An error is no answer: the caller may try again. One at a time.
  virtual void commit(const std::string& state, OnDone on_done) = 0;
  /// Why the newest question had no answer; empty: it had one.
  [[nodiscard]] virtual std::string trouble() const = 0;
  /// Leads no more. `job_is_over`: nobody is to go on with its state.
  virtual void resign(bool job_is_over, OnDone on_done) = 0;
};

}  // namespace ddprun
