// Machine: power, clock and the one process of a simulated node, which may be stopped. What the
// process does is AgentShell's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/sim/random.h"

namespace ddprun::sim {

class Cluster;
class AgentShell;

class Machine {
 public:
  Machine(Cluster& cluster, int index);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // Faults.

  /// Power, if there is none, and an agent, if none runs.
  void start();
  /// The agent and its workers are killed.
  void die();
  /// Power is lost.
  void vanish();
  void stop_agent(Duration lasts);
  void stop_all(Duration lasts);
  void suspend(Duration lasts);
  /// Whatever lives here may live besides others for so long.
  void excuse(Duration lasts);
  void jump_clock() { wall_offset_ += random_.between(-kWallJump, kWallJump); }

  // For the process.

  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] bool powered() const { return powered_; }
  [[nodiscard]] bool awake() const { return suspended_ == 0; }
  /// Its process is not stopped, nor is it suspended.
  [[nodiscard]] bool runs() const { return agent_ && stopped_ == 0 && awake(); }
  [[nodiscard]] AgentShell* agent() const { return agent_.get(); }
  /// Another number for each process that runs here.
  [[nodiscard]] std::uint64_t life() const { return life_; }
  /// Its steady clock.
  [[nodiscard]] Duration now() const;
  [[nodiscard]] Duration wall_clock() const { return now() + wall_offset_; }
  /// On its steady clock, in this life of the process.
  template <class Action>
  void later(Duration delay, Action action) {
    at_local(now() + delay, life_, std::move(action));
  }
  /// Now, or when the process goes on.
  void when_it_runs(std::function<void()> action);
  /// The process ends by itself.
  void exit();
  Random& random() { return random_; }
  Cluster& cluster() { return cluster_; }

 private:
  static constexpr Duration kWallJump = std::chrono::hours(24);

  void end_life(bool kernel_lives);
  /// An action of that life, due by the machine's clock, when the true time for it has come.
  enum class Timer : std::uint8_t { of_the_dead, stands, early, due };
  [[nodiscard]] Timer look_at_timer(Duration local, std::uint64_t life) const;
  template <class Action>
  void at_local(Duration local, std::uint64_t life, Action action) {
    wait_until(local, [this, local, life, action = std::move(action)]() mutable {
      switch (look_at_timer(local, life)) {
        case Timer::of_the_dead:
          break;
        case Timer::stands:
          waiting_.push_back([this, local, life, action = std::move(action)]() mutable {
            at_local(local, life, std::move(action));
          });
          break;
        case Timer::early:  // its clock stood meanwhile
          at_local(local, life, std::move(action));
          break;
        case Timer::due:
          action();
          break;
      }
    });
  }
  void wait_until(Duration local, std::function<void()> action);
  void go_on();
  void rest(Duration lasts);

  Cluster& cluster_;
  int index_;
  Random random_;
  double rate_ = 1;        ///< of its clock against the true one
  Duration local_base_{};  ///< what it showed
  Duration true_base_{};   ///< at this time
  Duration wall_offset_{};
  bool powered_ = false;
  int stopped_ = 0;    ///< stops that last
  int suspended_ = 0;  ///< suspensions that last
  int excuses_ = 0;
  std::uint64_t life_ = 0;
  std::vector<std::function<void()>> waiting_;  ///< until it goes on
  std::unique_ptr<AgentShell> agent_;
};

}  // namespace ddprun::sim
