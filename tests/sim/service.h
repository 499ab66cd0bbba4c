// Service: a consensus service as etcd is one, outside of the cluster's machines: three keys,
// leases and a revision, changed by one question after the other. It may be away, slow, out of
// reach of some machines, and lose answers to what it has done. What it is asked, and when, is the
// product's (node/service_tenure, node/service_search).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "rendezvous/node/service_question.h"
#include "tests/sim/fault.h"
#include "tests/sim/timeline.h"

namespace ddprun::sim {

class Service {
 public:
  struct Reply {
    ServiceView view;      ///< of ReadView
    ServiceAnswer answer;  ///< of all others
  };
  using OnReply = std::function<void(const Reply& reply)>;

  Service(Timeline& timeline, const SimOptions& options);

  /// From that machine. No answer comes where the service is out of reach, and what was asked may
  /// be done later all the same: it waits in a kernel, or at a member that hangs.
  void ask(int from, const ServiceQuestion& question, OnReply on_reply);
  void strike(const Fault& fault);
  /// A question from there would be answered in time.
  [[nodiscard]] bool serves(int machine) const;

  // What it knows, for the observer.

  /// A leader whose lease has ended by itself, with nobody after it.
  [[nodiscard]] bool lease_is_over();
  /// That of this one has ended by itself, and it has not entered itself anew.
  [[nodiscard]] bool lease_is_over(VoterId leader);
  /// It was asked to keep this configuration, and did.
  [[nodiscard]] bool has_kept(ConfigurationNumber number) const { return kept_.contains(number); }
  /// It was away for somebody, or slow, for some time.
  [[nodiscard]] bool was_in_trouble() const { return was_in_trouble_; }
  /// And that the job is over.
  [[nodiscard]] bool has_kept_end() const { return has_kept_end_; }
  /// The state's lease has ended, or somebody has removed it: what is begun then is begun anew.
  [[nodiscard]] bool has_forgotten() const { return has_forgotten_; }

 private:
  template <class Value>
  struct Key {
    std::optional<Value> value;
    std::int64_t revision = 0;  ///< of the newest write; 0: there is none
    ServiceLease lease;
  };

  Reply apply(const ServiceQuestion& question);
  ServiceAnswer carry_out(const GrantLease& question);
  ServiceAnswer carry_out(const RenewLease& question);
  ServiceAnswer carry_out(const RevokeLease& question);
  ServiceAnswer carry_out(const ServiceTransaction& question);
  ServiceAnswer carry_out(const ReadView& /*question*/) { return {}; }
  void expire();
  void end_lease(const ServiceLease& lease);
  void note_state(const std::string& state);
  [[nodiscard]] Duration ends_at(Duration lasts) const;
  [[nodiscard]] Duration trip();
  void count(int& counter, Duration lasts);

  Timeline& timeline_;
  const SimOptions& options_;
  Random random_;
  double rate_;  ///< of its clock against the true one
  std::int64_t revision_ = 1;
  Key<LeaderRecord> leader_;
  Key<Term> term_;
  Key<std::string> state_;
  struct Lease {
    Duration lasts{};
    Duration ends{};
  };
  std::map<ServiceLease, Lease> leases_;
  std::uint64_t last_lease_ = 0;
  // Faults that last.
  int away_ = 0;
  int slow_ = 0;
  int losing_ = 0;
  std::map<int, int> cut_off_;  ///< by machine
  std::set<ConfigurationNumber> kept_;
  bool lease_is_over_ = false;
  std::set<VoterId> outlived_;  ///< leaders whose newest lease has ended by itself
  bool has_forgotten_ = false;
  bool has_kept_end_ = false;
  bool was_in_trouble_ = false;
};

}  // namespace ddprun::sim
