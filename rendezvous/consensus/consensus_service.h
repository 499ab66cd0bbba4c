// ConsensusService: what a cluster has outside of a job's nodes and can be trusted to decide: who
// leads the job, and what its newest replicated state is (etcd; docs/etcd.md). With it no node
// votes: whoever the service lets lead is the coordinator, and the loss of all other nodes stops
// nothing. An implementation lives on the agent's loop, and outlives who uses it.
//
// The calls of such a service: lead (acquire; it renews by itself), let go and resign, read, commit
// (compare and set) and, in place of a watch, reading again: only nodes that have no coordinator
// ask.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/node/service_question.h"

namespace ddprun {

class ConsensusService {
 public:
  using OnView = std::function<void(const Result<ServiceView>& view)>;
  using OnDone = std::function<void(const Result<bool>& done)>;

  ConsensusService() = default;
  ConsensusService(const ConsensusService&) = delete;
  ConsensusService& operator=(const ConsensusService&) = delete;
  virtual ~ConsensusService() = default;

  /// For people: "etcd".
  [[nodiscard]] virtual std::string name() const = 0;
  virtual void read(OnView on_view) = 0;
  /// How long an agent waits from one answer to the next read().
  [[nodiscard]] virtual std::chrono::milliseconds ask_each() const = 0;
  /// Becomes the leader, if nothing has changed since `seen`: where it names a leader, that one is
  /// known to be dead and is replaced. False: somebody else was faster. From then on the lease is
  /// renewed until let_go() or resign().
  virtual void lead(const ServiceView& seen, const LeaderRecord& self, OnDone on_done) = 0;
  /// While it leads: until then, by this process' steady clock, nobody else can. In the past once
  /// another one does. It is renewed to this much more than the heartbeat timeout.
  [[nodiscard]] virtual Instant leads_until() const = 0;
  /// The newest state that was given is written, if this process leads still; false: it does not.
  /// An error is no answer: the caller may try again. One at a time.
  virtual void commit(const std::string& state, OnDone on_done) = 0;
  /// Why the newest question had no answer; empty: it had one.
  [[nodiscard]] virtual std::string trouble() const = 0;
  /// Leads no more. What it has entered stays until its lease ends, so that nobody else leads while
  /// others follow this one still.
  virtual void let_go() = 0;
  /// Leads no more, and nobody follows it: another may lead at once. `job_is_over`: nobody is to go
  /// on with its state.
  virtual void resign(bool job_is_over, OnDone on_done) = 0;
};

}  // namespace ddprun
