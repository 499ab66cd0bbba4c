// Cluster: machines, the network between them, a schedule of faults, and an observer. What decides
// is the product's: Node and Leader, and all that they are made of. One seed and one schedule are
// one story, the same in every run.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/apart.h"
#include "tests/sim/digest.h"
#include "tests/sim/fault.h"
#include "tests/sim/machine.h"
#include "tests/sim/network.h"
#include "tests/sim/observer.h"
#include "tests/sim/service.h"
#include "tests/sim/timeline.h"

namespace ddprun::sim {

class Narrator;
class Training;

class Cluster : private NetworkEnds {
 public:
  Cluster(SimOptions options, std::vector<Fault> schedule, bool tracing = false);
  ~Cluster() override;

  /// Until all is over, or must be.
  void run();
  /// Until nothing is left to happen; of a job that trains for ever.
  void run_dry();
  /// Lets that happen now.
  void strike(const Fault& fault);
  void run_until(Duration time);
  /// What went wrong; empty when nothing did.
  [[nodiscard]] const std::string& violation() const { return observer_.violation(); }
  /// With `tracing`: one line for each event, order and fault.
  [[nodiscard]] const std::string& trace() const { return trace_; }
  [[nodiscard]] std::size_t events() const { return events_; }
  [[nodiscard]] int takeovers() const { return takeovers_; }
  /// Of all that was read, and all that a coordinator was told and ordered, each with its time.
  [[nodiscard]] std::uint64_t digest() const { return digest_.value(); }

  // For machines and their agents.

  [[nodiscard]] const SimOptions& options() const { return options_; }
  [[nodiscard]] Duration now() const { return timeline_.now(); }
  void at(Duration time, std::function<void()> action, ActionTag tag = {}) {
    timeline_.at(time, std::move(action), tag);
  }
  Timeline& timeline() { return timeline_; }
  Network& network() { return network_; }
  /// Null: nodes vote.
  Service* service() { return service_ ? &*service_ : nullptr; }
  Observer& observer() { return observer_; }
  [[nodiscard]] const Observer& observer() const { return observer_; }
  [[nodiscard]] AgentShell* agent_of(int machine) const;
  Machine& machine(int index) { return *machines_[static_cast<std::size_t>(index)]; }
  /// Of a listener, where the system chooses it.
  int new_port() { return 30'000 + ports_++ % 30'000; }
  /// The job has begun somewhere, or may only be gone on with.
  [[nodiscard]] bool has_begun() const { return observer_.any_world() || takeovers_ > 0; }
  /// A question to another machine's process; not answered where none runs. One that is stopped
  /// answers late.
  void ask(int from, int to, std::function<void(AgentShell&)> question);
  /// The same to the process of a voter. Where it is no more, the kernel there says so: `gone`
  /// is for who asked.
  void ask_voter(int from, VoterId voter, std::function<void(AgentShell&)> question,
                 std::function<void(AgentShell&)> gone);
  /// Where a voter's agent is.
  void register_voter(VoterId voter, int machine) { voters_[voter] = machine; }
  [[nodiscard]] int machine_of(VoterId voter) const { return voters_.at(voter); }
  LeadershipId new_leadership() { return static_cast<LeadershipId>(++leads_); }
  void count_event(const Event& event, const std::vector<Command>& commands);
  void count_takeover() { ++takeovers_; }
  /// Its workers fail: those of other nodes in the same attempt may, for that.
  void peers_notice(int machine);
  void excuse_all(Duration lasts);
  /// The machine of a coordinator vanishes while it tells the end. Once.
  [[nodiscard]] bool end_is_fatal() const { return end_is_fatal_; }
  void vanish_with_end(Machine& machine);
  /// Who keeps count of what workers do; null: nobody. It outlives this object.
  void watch_training(Training* training) { training_ = training; }
  [[nodiscard]] Training* training() const { return training_; }
  /// Who is shown all that is decided; null: nobody. It outlives this object.
  void watch_decisions(Narrator* narrator) { narrator_ = narrator; }
  [[nodiscard]] Narrator* narrator() const { return narrator_; }
  [[nodiscard]] bool tracing() const { return tracing_; }
  void log(int machine, const std::string& what);
  /// A step that an exploration chose.
  void log_step(const std::string& what);

 private:
  [[nodiscard]] bool powered(int machine) const override;
  [[nodiscard]] bool awake(int machine) const override;
  [[nodiscard]] bool reads(int machine) const override;
  void deliver(ConnectionId connection, Side to, const Message& message) override;
  void strike_machine(const Fault& fault, Machine& machine);
  void knock_as_stranger(int from);
  void look_at_service();
  [[nodiscard]] int coordinator() const;
  [[nodiscard]] bool quorum_is_gone() const;
  void judge_end(bool timed_out);
  [[nodiscard]] Duration bound() const;

  SimOptions options_;
  std::vector<Fault> schedule_;
  Timeline timeline_;
  Observer observer_;
  Network network_;
  std::optional<Service> service_;
  std::vector<std::unique_ptr<Machine>> machines_;
  Apart apart_;
  std::map<VoterId, int> voters_;
  std::uint32_t leads_ = 0;
  std::size_t events_ = 0;
  Digest digest_;
  int takeovers_ = 0;
  int ports_ = 0;
  bool end_is_fatal_ = false;
  Training* training_ = nullptr;
  Narrator* narrator_ = nullptr;
  bool tracing_;
  std::string trace_;
};

}  // namespace ddprun::sim
