// Machines: a model of agents, standbys and coordinators around real electors and candidacies, with
// a network that can be cut in each direction, and an observer who knows which workers live. What
// the model does is what control/ does with sockets; docs/membership.md has the rules.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/membership/candidacy.h"

namespace ddprun::sim {

struct ElectionOptions {
  std::uint64_t seed = 0;
  int machines = 5;
  Instant faults_until = std::chrono::seconds(60);
  Instant ends = std::chrono::seconds(120);
  double cuts = 0.05;     ///< of one direction, per link and second
  double islands = 0.02;  ///< a group cut off from the rest, per second
  double deaths = 0.02;   ///< per machine and second
  double failures = 0.1;  ///< of a worker, per second
};

class ElectionModel {
 public:
  explicit ElectionModel(ElectionOptions options);
  ~ElectionModel();
  void run();

  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] int takeovers() const { return takeovers_; }
  [[nodiscard]] int attempts() const { return static_cast<int>(attempts_.size()); }
  /// An attempt runs at the end.
  [[nodiscard]] bool alive_at_end() const;
  /// No attempt may run any more: of the newest roster in use, or of one that was about to be, too
  /// few are what they were.
  [[nodiscard]] bool quorum_died() const;
  [[nodiscard]] const std::string& trace() const { return trace_; }

 private:
  struct Machine;
  struct Action {
    Instant time;
    std::uint64_t sequence;
    std::function<void()> run;
    bool operator>(const Action& other) const {
      return std::tie(time, sequence) > std::tie(other.time, other.sequence);
    }
  };

  /// What is on its way from one machine to another, with the life of the process it is meant for.
  struct Wire {
    Instant last{};
    std::deque<std::pair<std::uint64_t, std::function<void(Machine&)>>> messages;
  };

  void at(Instant time, std::function<void()> action);
  void later(Machine& machine, Instant delay, std::function<void(Machine&)> action);
  void send(Machine& from, Machine& to, std::function<void(Machine&)> what);
  void deliver(std::pair<int, int> link, Wire& wire, Machine& to);
  Instant up_to(Instant most);
  bool chance(double probability);
  void log(const Machine& machine, const std::string& what);
  void broken(const std::string& what);

  void boot(Machine& machine);
  void die(Machine& machine);
  void faults();
  // The agent.
  void join(Machine& machine, Machine& coordinator, Term term, Instant called);
  void beat(Machine& machine);
  void leave_coordinator(Machine& machine, bool saw_close);
  void lose_coordinator(Machine& machine);
  void stop_workers(Machine& machine);
  void start_workers(Machine& machine, AttemptNumber attempt);
  void report_stopped(Machine& machine, AttemptNumber attempt);
  [[nodiscard]] bool follows(const Machine& coordinator, int index, std::uint64_t connection) const;
  void check_lease(Machine& machine);
  void pursue(Machine& machine);
  void seek(Machine& machine);
  // The coordinator.
  void lead(Machine& machine, Term term, AttemptNumber next, const Succession& known);
  void step_down(Machine& machine);
  void order(Machine& machine, int follower, std::function<void(Machine&)> what);
  void hear(Machine& machine, int follower, Instant echoed);
  void drop(Machine& machine, int follower);
  void stopped(Machine& machine, int follower, AttemptNumber attempt);
  void stop_attempt(Machine& machine);
  void go_on(Machine& machine);
  void inform(Machine& machine);
  void prepare(Machine& machine);
  void hand_out(Machine& machine);
  void call(Machine& machine);
  [[nodiscard]] Instant quorum_contact(const Machine& machine) const;
  [[nodiscard]] bool quorum_follows(const Machine& machine) const;

  ElectionOptions options_;
  std::mt19937_64 random_;
  Instant now_{};
  std::uint64_t sequence_ = 0;
  std::priority_queue<Action, std::vector<Action>, std::greater<>> queue_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::set<std::pair<int, int>> cut_;
  std::map<std::pair<int, int>, Wire> wires_;
  std::map<std::uint32_t, std::pair<std::uint32_t, int>> attempts_;  ///< number: term, coordinator
  std::map<std::uint32_t, int> terms_;
  Roster newest_;     ///< that a world was handed out of
  Roster announced_;  ///< to its electors
  ElectorId newest_coordinator_{};
  std::uint64_t connections_ = 0;
  int takeovers_ = 0;
  std::string violation_;
  std::string trace_;
};

}  // namespace ddprun::sim
