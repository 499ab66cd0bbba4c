// ModelAgent: what an agent does with its orders, without processes or sockets: spawn, train, fail,
// stop, die. It obeys the protocol and its fencing rules, and nothing more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rendezvous/membership/command.h"
#include "rendezvous/membership/event.h"

namespace ddprun::sim {

class Simulator;

class ModelAgent {
 public:
  ModelAgent(Simulator& sim, std::uint64_t index, std::string host, int workers)
      : sim_(sim), index_(index), host_(std::move(host)), workers_(workers) {}

  /// A process starts on this node, and says hello.
  void start();
  /// The process dies with its workers; the connection closes.
  void die();
  /// The network loses everything from and to this node from now on.
  void cut_off();
  /// Its machine loses power: nothing of it runs any more, and nobody is told.
  void vanish();
  /// Someone sends the agent a signal.
  void signal();
  void obey(const Command& order);

  [[nodiscard]] bool running() const { return running_; }
  [[nodiscard]] std::optional<NodeId> connection() const { return connection_; }
  [[nodiscard]] bool reachable() const { return running_ && !cut_; }

 private:
  void assigned(const World& world);
  void stop(AttemptNumber attempt);
  void worker_fails(AttemptNumber attempt);
  void finished(AttemptNumber attempt);
  void kill_workers();
  void say(Event event);
  /// Later, if this process is still the same one.
  template <class Action>
  void later(std::chrono::nanoseconds delay, Action action);

  Simulator& sim_;
  std::uint64_t index_;
  std::string host_;
  int workers_;
  bool running_ = false;
  bool cut_ = false;
  std::uint64_t life_ = 0;
  std::optional<NodeId> connection_;
  std::optional<World> world_;
  bool live_ = false;
  bool failed_ = false;
  bool stopping_ = false;
  std::optional<FailureRecord> failure_;
};

}  // namespace ddprun::sim
